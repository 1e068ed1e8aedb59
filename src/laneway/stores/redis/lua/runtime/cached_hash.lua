-- needs: runtime/base
-- A write-through cache of hashes of packed values: a field is read when it is first needed, and written at the flush
-- if it has changed.

local cached_hash = {}
local PIECE = 1000  -- fields in one variadic command: Lua's stack is limited
local caches = {}  -- by name
local MOST_OF_FAMILIES = 100  -- caches made by `of_family`, before all of them are dropped
local of_families = 0
local used = {}  -- caches that were read or written in this call
local CachedHash = {}
CachedHash.__index = CachedHash

-- Return the cache of a hash.
--
-- `make(field)` returns the value of a missing field; without it, that is nil. `write(value)` returns what is packed
-- for a value, nil if it need not be kept; `read(packed, field)` returns the value again. Both may be left out. Instead
-- of them a cache may have `to_text(value)` and `of_text(text, field)`. `complete()`, if there is one, is called before
-- a cache is written.
function cached_hash.at(name, make, write, read)
  local cache = caches[name]
  if not cache then
    cache = setmetatable({name = name, make = make, write = write, read = read, values = {}, texts = {}}, CachedHash)
    cache.rewritten = {}  -- texts to write, of fields whose values nobody has read
    cache.prefetched = {}  -- texts that were read and not parsed yet; false if there is none
    caches[name] = cache
  end
  return cache
end

-- Return the cache of one hash of a family, such as one of each lane. These are dropped when there are many.
function cached_hash.of_family(name, make, write, read)
  if not caches[name] then
    of_families = of_families + 1
    cached_hash.at(name, make, write, read).is_of_family = true
  end
  return caches[name]
end

base.at_begin(function()
  for i = 1, #used do
    local cache = used[i]
    cache.key, cache.values, cache.texts, cache.is_whole = nil, {}, {}, false
    cache.rewritten, cache.prefetched = {}, {}
  end
  used = {}
  if of_families > MOST_OF_FAMILIES then
    for name, cache in pairs(caches) do
      caches[name] = not cache.is_of_family and cache or nil
    end
    of_families = 0
  end
end)

-- Note that this call uses the cache, so that it is written at the flush and reset before the next call.
function CachedHash:use()
  if not self.key then
    self.key = PREFIX .. self.name
    used[#used + 1] = self
  end
end

function CachedHash:parse(field, text)
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
  self.values[field] = value or false
  return value
end

-- Return the value of a field, nil if there is none.
function CachedHash:find(field)
  local value = self.values[field]
  if value ~= nil then
    return value or nil
  end
  self:use()
  local text = self.rewritten[field]
  if text then
    value, self.rewritten[field] = self:parse(field, text), nil
    self.texts[field] = false  -- not written yet
    return value
  end
  text = self.prefetched[field]
  if text == nil then
    text = not self.is_whole and call('HGET', self.key, field)
  end
  return self:parse(field, text)
end

-- Return the value of a field; a new one if there is none.
function CachedHash:get(field)
  local value = self:find(field)
  if not value then
    value = self.make(field)
    self.values[field] = value
  end
  return value
end

function CachedHash:put(field, value)
  if self.values[field] == nil then
    self:find(field)
  end
  self.values[field] = value
end

-- Put a value under a field that is known not to exist.
function CachedHash:add(field, value)
  self:use()
  self.texts[field] = false
  self.values[field] = value
end

function CachedHash:drop(field)
  self:put(field, false)
end

-- Read and parse several fields in one command.
function CachedHash:load(fields)
  self:prefetch(fields)
  for i = 1, #fields do
    if self.values[fields[i]] == nil then
      self:find(fields[i])
    end
  end
end

-- Read the texts of several fields in one command; a field is parsed when its value is needed.
function CachedHash:prefetch(fields)
  local missing, count, values, rewritten, prefetched = {}, 0, self.values, self.rewritten, self.prefetched
  self:use()
  for i = 1, #fields do
    local field = fields[i]
    if prefetched[field] == nil and values[field] == nil and not rewritten[field] then
      count = count + 1
      missing[count] = field
    end
  end
  for first = 1, count, PIECE do
    local last = min(first + PIECE - 1, count)
    local texts = call('HMGET', self.key, unpack(missing, first, last))
    for i = first, last do
      prefetched[missing[i]] = texts[i - first + 1]
    end
  end
end

-- Read all fields, once per call.
function CachedHash:read_all()
  if self.is_whole then
    return
  end
  self:use()
  self.is_whole = true
  local found = call('HGETALL', self.key)
  for i = 1, #found, 2 do
    if self.rewritten[found[i]] then
      self:find(found[i])
    elseif self.values[found[i]] == nil then
      self:parse(found[i], found[i + 1])
    end
  end
end

-- Return all fields and values as a table.
function CachedHash:all()
  self:read_all()
  local all = {}
  for field, value in pairs(self.values) do
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

local function write_hash(cache)
  if cache.complete then
    cache:complete()
  end
  local sets, deleted, at = {}, {}, 1
  local texts, to_text = cache.texts, cache.to_text
  if not to_text then
    to_text = packer(cache.write)
    cache.to_text = to_text
  end
  for field, text in pairs(cache.rewritten) do
    sets[at], sets[at + 1] = field, text
    at = at + 2
  end
  for field, value in pairs(cache.values) do
    local text, before = value and to_text(value), texts[field]
    if not text then
      deleted[#deleted + 1] = before and field or nil
    elseif text ~= before then
      sets[at], sets[at + 1] = field, text
      at = at + 2
    end
  end
  base.send('HDEL', cache.key, deleted)
  base.send_fields(cache.key, sets)
end

base.at_end(function()
  for i = 1, #used do
    write_hash(used[i])
  end
end)
