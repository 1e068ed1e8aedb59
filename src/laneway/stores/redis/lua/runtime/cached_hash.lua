-- needs: runtime/base
-- Ledgers: hashes of packed values, read when first asked for and written at the end if they differ.

local cached_hash = {}
local PIECE = 1000  -- fields in one variadic command: Lua's stack has an end
local known, passing = {}, 0  -- by name; how many of them are one of many
local MOST_PASSING = 100  -- before those are forgotten
local remembered, MOST_REMEMBERED = 0, 2000  -- values that were remembered by all of them, before they are forgotten
local touched = {}  -- those of which something was read or written in this call
local NO_MEMORY = {}  -- never written to
local Ledger = {}
Ledger.__index = Ledger

-- Return the ledger of a hash. `make(field)` gives a new value; without it what is missing is nil. `write(value)` gives
-- what is packed, nil if it need not be kept; `read(packed, field)` gives the value again. Both may be left out. A
-- ledger that has `to_text(value)` and `of_text(text, field)` packs by them instead; one that has `complete()` is told
-- so before it is written.
function cached_hash.at(name, make, write, read)
  local ledger = known[name]
  if not ledger then
    ledger = setmetatable({name = name, make = make, write = write, read = read, kept = {}, texts = {}}, Ledger)
    ledger.rewritten = {}  -- texts that are to be written as they are
    ledger.offered = {}  -- texts that were read, and may be asked for
    known[name] = ledger
  end
  return ledger
end

-- Do the same for one of many hashes, such as there is one of for each lane.
function cached_hash.one(name, make, write, read)
  if not known[name] then
    passing = passing + 1
    cached_hash.at(name, make, write, read).passes = true
  end
  return known[name]
end

base.at_begin(function()
  for i = 1, #touched do
    local ledger = touched[i]
    if ledger.memory and not ledger.is_written then  -- what is remembered was handed out, and may have been changed
      ledger.memory = {}
    end
    ledger.key, ledger.kept, ledger.texts, ledger.is_whole, ledger.is_written = nil, {}, {}, false, false
    ledger.rewritten, ledger.offered = {}, {}
  end
  touched = {}
  if remembered > MOST_REMEMBERED then
    for _, ledger in pairs(known) do
      ledger.memory = ledger.memory and {}
    end
    remembered = 0
  end
  if passing > MOST_PASSING then
    for name, ledger in pairs(known) do
      known[name] = not ledger.passes and ledger or nil
    end
    passing = 0
  end
end)

-- Make a ledger ready for this call: what it is asked for or told is read and written under its key.
function Ledger:touch()
  if not self.key then
    self.key = PREFIX .. self.name
    touched[#touched + 1] = self
  end
end

-- Let a ledger remember from one call to the next what the texts of its fields say. A value knows as what it was read
-- or written last (`was`, false if it is new), and holds only as long as that is the text: whoever has changed it has
-- made the value one of the past. All are forgotten after a call that read some and wrote none, because it may have
-- changed them. A value that has `own` is not remembered.
function Ledger:remember()
  self.memory = self.memory or {}
end

function Ledger:take_in(field, text)
  local of_text, memory = self.of_text, self.memory
  if text and memory then
    local value = memory[field]
    if not value or value.was ~= text then
      value = of_text(text, field)
      value.was = text
    end
    self.kept[field] = value
    return value
  end
  self.texts[field] = text
  if text and of_text then
    local value = of_text(text, field)
    self.kept[field] = value
    return value
  end
  local value = text and unpacked(text) or nil
  if value and self.read then
    value = self.read(value, field)
  end
  self.kept[field] = value or false
  return value
end

-- Return the value of a field if there is one.
function Ledger:find(field)
  local value = self.kept[field]
  if value ~= nil then
    return value or nil
  end
  self:touch()
  local text = self.rewritten[field]
  if text then
    value, self.rewritten[field] = self:take_in(field, text), nil
    self.texts[field] = false  -- it is yet to be written
    return value
  end
  text = self.offered[field] or (not self.is_whole and call('HGET', self.key, field))
  return self:take_in(field, text)
end

-- Return the value of a field; a new one if there is none.
function Ledger:get(field)
  local value = self:find(field)
  if not value then
    value = self.make(field)
    self.kept[field] = value
  end
  return value
end

function Ledger:put(field, value)
  local before = self.kept[field]
  if before == nil then
    before = self:find(field)
  end
  if before and self.memory and before.was then
    self.texts[field] = before.was
  end
  self.kept[field] = value
end

-- Put a value under a field that is known to be new.
function Ledger:add(field, value)
  self:touch()
  self.texts[field] = false
  self.kept[field] = value
end

function Ledger:drop(field)
  self:put(field, false)
end

-- Read several fields at once.
function Ledger:load(fields)
  local missing, count, kept, rewritten, offered = fields, #fields, self.kept, self.rewritten, self.offered
  self:touch()
  if next(kept) ~= nil or next(rewritten) ~= nil or next(offered) ~= nil then
    missing, count = {}, 0
    for i = 1, #fields do
      local field = fields[i]
      if kept[field] == nil and not rewritten[field] and not offered[field] then
        count = count + 1
        missing[count] = field
      end
    end
  end
  local memory = self.memory or NO_MEMORY
  for first = 1, count, PIECE do
    local last, before = min(first + PIECE - 1, count), first - 1
    local texts = call('HMGET', self.key, unpack(missing, first, last))
    for i = first, last do
      local field, text = missing[i], texts[i - before]
      local value = memory[field]
      if value and value.was == text then
        kept[field] = value
      elseif kept[field] == nil then  -- it may be there twice
        self:take_in(field, text)
      end
    end
  end
end

-- Return the texts of these fields by their places, nil for those that this call has taken in. What becomes of a text
-- is told by `rewritten[field]`; who does not need it may leave it in `offered[field]`.
function Ledger:untouched(fields)
  self:touch()
  local found, kept = {}, next(self.kept) ~= nil and self.kept
  for first = 1, #fields, PIECE do
    local last = min(first + PIECE - 1, #fields)
    local texts = call('HMGET', self.key, unpack(fields, first, last))
    if first == 1 then
      found = texts
    else
      for i = first, last do
        found[i] = texts[i - first + 1]
      end
    end
  end
  for i = 1, kept and #fields or 0 do
    if kept[fields[i]] ~= nil then
      found[i] = nil
    end
  end
  return found
end

-- Read the texts of these fields, unless that was done, and leave them in `offered`.
function Ledger:offer(fields)
  local missing, count, kept, rewritten, offered = {}, 0, self.kept, self.rewritten, self.offered
  self:touch()
  for i = 1, #fields do
    local field = fields[i]
    if not offered[field] and kept[field] == nil and not rewritten[field] then
      count = count + 1
      missing[count] = field
    end
  end
  for first = 1, count, PIECE do
    local last = min(first + PIECE - 1, count)
    local texts = call('HMGET', self.key, unpack(missing, first, last))
    for i = first, last do
      offered[missing[i]] = texts[i - first + 1] or nil
    end
  end
end

-- Read everything, once.
function Ledger:read_all()
  if self.is_whole then
    return
  end
  self:touch()
  self.is_whole = true
  local found = call('HGETALL', self.key)
  for i = 1, #found, 2 do
    if self.rewritten[found[i]] then
      self:find(found[i])
    elseif self.kept[found[i]] == nil then
      self:take_in(found[i], found[i + 1])
    end
  end
end

-- Return the fields and values of everything as a table.
function Ledger:all()
  self:read_all()
  local all = {}
  for field, value in pairs(self.kept) do
    if value then
      all[field] = value
    end
  end
  return all
end

local function packer(write)
  return function(value)
    local form = value
    if write then
      form = write(value)
    end
    return form and pack(form)
  end
end

local MANY = 64  -- values that are set at once, from which on it is worth while to make a hash quick to search

local function write_ledger(ledger)
  if ledger.complete then
    ledger:complete()
  end
  if next(ledger.kept) == nil and next(ledger.rewritten) == nil then
    return
  end
  local sets, gone, at, count = {}, {}, 1, 0
  local texts, memory = ledger.texts, ledger.memory
  local to_text = ledger.to_text
  if not to_text then
    to_text = packer(ledger.write)
    ledger.to_text = to_text
  end
  for field, text in pairs(ledger.rewritten) do
    sets[at], sets[at + 1] = field, text
    at = at + 2
  end
  for field, value in pairs(ledger.kept) do
    local text, before = value and to_text(value), nil
    if not memory then
      before = texts[field]
    elseif text and not value.own then
      before = value.was or texts[field]
      value.was = text
      if memory[field] ~= value then
        memory[field], count = value, count + 1
      end
    else
      before, memory[field] = value and value.was or texts[field], nil
    end
    if not text then
      gone[#gone + 1] = before and field or nil
    elseif text ~= before then
      sets[at], sets[at + 1] = field, text
      at = at + 2
    end
  end
  remembered = remembered + count
  if #gone > 0 then
    base.send('HDEL', ledger.key, gone)
  end
  if at > MANY then
    base.quicken(sets)
  end
  if at > 1 then
    base.send('HSET', ledger.key, sets)
  end
end

base.at_end(function()
  for i = 1, #touched do
    write_ledger(touched[i])
    touched[i].is_written = true
  end
end)
