-- needs: runtime/base
-- Hashes of packed values, read when first asked for and written at the end of the call if they differ.

local cached_hash = {}
local PIECE = 1000  -- fields in one variadic command: Lua's stack has an end
local known, passing = {}, 0  -- by name; how many of them are one of many
local MOST_PASSING = 100  -- before those are forgotten
local touched = {}  -- those of which something was read or written in this call
local CachedHash = {}
CachedHash.__index = CachedHash

-- Return the cache of a hash. `make(field)` gives a new value; without it what is missing is nil. `write(value)` gives
-- what is packed, nil if it need not be kept; `read(packed, field)` gives the value again. Both may be left out. A cache
-- that has `to_text(value)` and `of_text(text, field)` packs by them instead; one that has `complete()` is told before it
-- is written.
function cached_hash.at(name, make, write, read)
  local hash = known[name]
  if not hash then
    hash = setmetatable({name = name, make = make, write = write, read = read, kept = {}, texts = {}}, CachedHash)
    hash.rewritten = {}  -- texts that are to be written as they are
    hash.offered = {}  -- texts that were read, and may be asked for
    known[name] = hash
  end
  return hash
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
    local hash = touched[i]
    hash.key, hash.kept, hash.texts, hash.is_whole = nil, {}, {}, false
    hash.rewritten, hash.offered = {}, {}
  end
  touched = {}
  if passing > MOST_PASSING then
    for name, hash in pairs(known) do
      known[name] = not hash.passes and hash or nil
    end
    passing = 0
  end
end)

-- Make a hash ready for this call: what it is asked for or told is read and written under its key.
function CachedHash:touch()
  if not self.key then
    self.key = PREFIX .. self.name
    touched[#touched + 1] = self
  end
end

function CachedHash:take_in(field, text)
  self.texts[field] = text
  local value
  if text and self.of_text then
    value = self.of_text(text, field)
  elseif text then
    value = unpacked(text)
    if self.read then
      value = self.read(value, field)
    end
  end
  self.kept[field] = value or false
  return value
end

-- Return the value of a field if there is one.
function CachedHash:find(field)
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
  text = self.offered[field]
  if text == nil then
    text = not self.is_whole and call('HGET', self.key, field)
  end
  return self:take_in(field, text)
end

-- Return the value of a field; a new one if there is none.
function CachedHash:get(field)
  local value = self:find(field)
  if not value then
    value = self.make(field)
    self.kept[field] = value
  end
  return value
end

function CachedHash:put(field, value)
  if self.kept[field] == nil then
    self:find(field)
  end
  self.kept[field] = value
end

-- Put a value under a field that is known to be new.
function CachedHash:add(field, value)
  self:touch()
  self.texts[field] = false
  self.kept[field] = value
end

function CachedHash:drop(field)
  self:put(field, false)
end

-- Read several fields at once.
function CachedHash:load(fields)
  self:offer(fields)
  for i = 1, #fields do
    if self.kept[fields[i]] == nil then
      self:find(fields[i])
    end
  end
end

-- Read the texts of these fields at once, unless that was done; they are taken in when somebody asks for them. What is
-- not there is false.
function CachedHash:offer(fields)
  local missing, count, kept, rewritten, offered = {}, 0, self.kept, self.rewritten, self.offered
  self:touch()
  for i = 1, #fields do
    local field = fields[i]
    if offered[field] == nil and kept[field] == nil and not rewritten[field] then
      count = count + 1
      missing[count] = field
    end
  end
  for first = 1, count, PIECE do
    local last = min(first + PIECE - 1, count)
    local texts = call('HMGET', self.key, unpack(missing, first, last))
    for i = first, last do
      offered[missing[i]] = texts[i - first + 1]
    end
  end
end

-- Read everything, once.
function CachedHash:read_all()
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
function CachedHash:all()
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

local function write_hash(hash)
  if hash.complete then
    hash:complete()
  end
  local sets, gone, at = {}, {}, 1
  local texts, to_text = hash.texts, hash.to_text
  if not to_text then
    to_text = packer(hash.write)
    hash.to_text = to_text
  end
  for field, text in pairs(hash.rewritten) do
    sets[at], sets[at + 1] = field, text
    at = at + 2
  end
  for field, value in pairs(hash.kept) do
    local text, before = value and to_text(value), texts[field]
    if not text then
      gone[#gone + 1] = before and field or nil
    elseif text ~= before then
      sets[at], sets[at + 1] = field, text
      at = at + 2
    end
  end
  base.send('HDEL', hash.key, gone)
  base.send_fields(hash.key, sets)
end

base.at_end(function()
  for i = 1, #touched do
    write_hash(touched[i])
  end
end)
