-- gives: base, call_later, MOST_MOVES
-- The base of every script: what is read is kept, and writes are made together at the end.
--
-- A script reads what it needs, decides on tables of its own, and writes only in `base.flush`, the last thing it does
-- (but for the ids of uniform_batch.lua). So whatever goes wrong before that has changed nothing.

local base = {}
local MOST_MOVES = 500  -- runs that one call may move before it answers "more"
local PIECE = 1000  -- values in one variadic command: Lua's stack has an end

-- Writes ------------------------------------------------------------------------------------------------------------

local flushes = {}  -- one function per kind of thing, in the order in which the modules stand in the script
local once = {}  -- those of this call alone
local later = {}

-- Let `forget` be called before each call: what a module has kept of the call before is not true any more.
function base.at_begin(forget)
  begins[#begins + 1] = forget
end

-- Let `write` be called at the end of each call that flushes.
function base.at_end(write)
  flushes[#flushes + 1] = write
end

-- Let `write` be called at the end of this call.
function base.at_this_end(write)
  once[#once + 1] = write
end

function base.flush()
  for i = 1, #flushes do
    flushes[i]()
  end
  for i = 1, #once do
    once[i]()
  end
end

base.at_begin(function()
  once, later, base.said = {}, {}, false
end)

-- Forget what was read and written: what comes now is as another call, at the same instant.
function base.begin_again()
  for i = 1, #begins do
    begins[i]()
  end
end

-- Make a write at the end; the key comes without the prefix.
local function call_later(command, key, ...)
  later[#later + 1] = {command, PREFIX .. key, ...}
end

base.at_end(function()
  for i = 1, #later do
    call(unpack(later[i]))
  end
end)

-- Send a variadic command in pieces; `list` holds its values (pairs stay together, because a piece is even).
function base.send(command, key, list)
  local count = #list
  if count > 0 and count <= PIECE then
    call(command, key, unpack(list))
    return
  end
  for first = 1, count, PIECE do
    call(command, key, unpack(list, first, min(first + PIECE - 1, count)))
  end
end

local LONG = string.rep(' ', 65)
local MANY = 64  -- fields and values that are set at once, from which on it is worth while to make a hash quick to search

-- Set fields of a hash, a list of fields and values. A server keeps a small hash as one string and searches it from its
-- beginning for every field, until it was once given a value that is longer than this; the same command writes over it.
function base.send_fields(key, sets)
  local at = #sets
  if at > MANY then
    sets[at + 1], sets[at + 2], sets[at + 3], sets[at + 4] = sets[1], LONG, sets[1], sets[2]
  end
  base.send('HSET', key, sets)
end

-- Refuse what brings new runs when the server's memory is full, before anything is decided: Redis looks only at the
-- first write of a script, and that might be one that takes no memory. Of a function it knows without looking.
function base.refuse_full()
  if not IN_LIBRARY then
    call('HINCRBY', PREFIX .. 'counters', 'number', 0)
  end
end

-- Let a step that only finishes what was accepted write although the server's memory is full: Redis refuses a script's
-- first write if that may take memory, and none behind one that may not.
function base.allow_full()
  if not IN_LIBRARY then
    call('DEL', PREFIX .. 'none')
  end
end

-- Counts ------------------------------------------------------------------------------------------------------------

local added = {}  -- key, then field: by how much it grows

base.at_begin(function()
  added = {}
end)

-- Return by how much the fields of a hash grow, to be changed by those who count often.
function base.growth(key)
  local fields = added[key]
  if not fields then
    fields = {}
    added[key] = fields
  end
  return fields
end

function base.count(key, field, by)
  local fields = base.growth(key)
  fields[field] = (fields[field] or 0) + by
end

base.at_end(function()
  for key, fields in pairs(added) do
    for field, by in pairs(fields) do
      if by ~= 0 and call('HINCRBY', PREFIX .. key, field, by) == 0 then
        call('HDEL', PREFIX .. key, field)
      end
    end
  end
end)

-- Plain texts kept beside a run: hash `name`, field, text; false deletes ----------------------------------------------

local texts = {}

base.at_begin(function()
  texts = {}
end)

function base.text(name, field)
  local fields = texts[name]
  local known = fields and fields[field]
  if known ~= nil then
    return known
  end
  return call('HGET', PREFIX .. name, field)
end

function base.set_text(name, field, value)
  if not texts[name] then
    texts[name] = {}
  end
  texts[name][field] = value or false
end

-- Return all fields of such a hash as a table.
function base.all_texts(name)
  local all, found = {}, call('HGETALL', PREFIX .. name)
  for i = 1, #found, 2 do
    all[found[i]] = found[i + 1]
  end
  for field, value in pairs(texts[name] or {}) do
    all[field] = value or nil
  end
  return all
end

base.at_end(function()
  for name, fields in pairs(texts) do
    local sets, gone = {}, {}
    for field, value in pairs(fields) do
      if value then
        sets[#sets + 1] = field
        sets[#sets + 1] = value
      else
        gone[#gone + 1] = field
      end
    end
    base.send('HDEL', PREFIX .. name, gone)
    base.send('HSET', PREFIX .. name, sets)
  end
end)

-- Sets of names, seldom more than a few: read whole when first asked for --------------------------------------------

local sets = {}

-- Keys that are seldom there and that every step or submission asks about: one call tells of all, or two.
local SELDOM = {'disabled', 'takers', 'paused_tasks', 'aside_lanes', 'broken_lanes', 'open', 'due', 'deadlines', 'jobs_due'}
local RARER = 6  -- so many of them are there more seldom than the others
local place_of, keys, keys_of = {}, {}, nil  -- where they stand; with the prefix, and which that was
local absent  -- none is there, by place

for place, name in ipairs(SELDOM) do
  place_of[name] = place
end

local function look_for_them()
  if keys_of ~= PREFIX then
    keys_of = PREFIX
    for place, name in ipairs(SELDOM) do
      keys[place] = PREFIX .. name
    end
  end
  if call('EXISTS', unpack(keys)) == 0 then
    absent = #SELDOM
  else
    absent = call('EXISTS', unpack(keys, 1, RARER)) == 0 and RARER or 0
  end
end

-- Tell whether a key is known not to be there when this call began.
function base.is_absent(name)
  local place = place_of[name]
  if not place then
    return false
  end
  if not absent then
    look_for_them()
  end
  return place <= absent
end

-- Tell whether nothing of what is seldom there was there when this call began: nothing is due, disabled, paused, parked
-- behind a task or a breaker, and no breaker is open.
function base.is_quiet()
  return base.is_absent('jobs_due')  -- which is the last of them
end

local NO_MEMBERS = {}  -- never written to

-- Return the members of a set as a table of trues. Change it by `base.put_in` alone.
function base.set(name)
  local set = sets[name]
  if set then
    return set
  end
  if place_of[name] and base.is_absent(name) then
    sets[name] = NO_MEMBERS
    return NO_MEMBERS
  end
  set = {}
  local members = call('SMEMBERS', PREFIX .. name)
  for i = 1, #members do
    set[members[i]] = true
  end
  sets[name] = set
  return set
end

local changed_sets = {}

base.at_begin(function()
  sets, changed_sets, absent = {}, {}, nil
end)

function base.put_in(name, member, there)
  local set = base.set(name)
  if (set[member] or false) ~= there then
    if set == NO_MEMBERS then
      set = {}
      sets[name] = set
    end
    set[member] = there or nil
    local changed = changed_sets[name]
    if not changed then
      changed = {}
      changed_sets[name] = changed
    end
    changed[member] = there
  end
end

base.at_end(function()
  for name, changed in pairs(changed_sets) do
    for member, there in pairs(changed) do
      call(there and 'SADD' or 'SREM', PREFIX .. name, member)
    end
  end
end)

-- Return the answer to a call that is refused: a word that says why, and facts, all texts; verbs/base.py knows them.
function base.refusal(word, ...)
  return redis.error_reply('LANEWAY ' .. word .. (select('#', ...) > 0 and ' ' .. cjson.encode({...}) or ''))
end

-- Return a module that is made when something of it is first asked for: `make` fills it. A script is run from its top
-- at each call, and making the functions of what it only may need takes time, too.
function base.lazily(make)
  return setmetatable({}, {__index = function(module, name)
    setmetatable(module, nil)
    make(module)
    return module[name]
  end})
end

-- Small tools -------------------------------------------------------------------------------------------------------

-- Formatting is slow, and most numbers are asked for more than once.
local digits, members = {}, {}

base.at_begin(function()
  digits, members = {}, {}
end)

local SMALL = 2147483648  -- below it '%d' is right wherever a server runs, and faster

-- Whole numbers as text: `tostring` would round those of more than 14 digits.
function base.digits(number)
  local text = digits[number]
  if not text then
    text = string.format(number < SMALL and number > -SMALL and '%d' or '%.0f', number)
    digits[number] = text
  end
  return text
end

-- The name of a run in sorted sets: equal ranks are in the order of acceptance. Its number may be given as text.
function base.member(number)
  local text = members[number]
  if not text then
    text = string.format('%015.0f', number)
    members[number] = text
  end
  return text
end

-- Tell whether a text comes before another, by bytes: Lua's own order is that of the server's locale.
function base.comes_before(one, other)
  for i = 1, min(#one, #other) do
    local a, b = byte(one, i), byte(other, i)
    if a ~= b then
      return a < b
    end
  end
  return #one < #other
end

-- Return the keys of a table in order: all numbers, or all texts.
function base.sorted_keys(map)
  local keys = {}
  for key in pairs(map) do
    keys[#keys + 1] = key
  end
  if #keys > 1 then
    table.sort(keys, type(keys[1]) == 'string' and base.comes_before or nil)
  end
  return keys
end

function base.index_of(list, value)
  for i = 1, #list do
    if list[i] == value then
      return i
    end
  end
  return nil
end

function base.remove_from(list, value)
  local at = base.index_of(list, value)
  if at then
    table.remove(list, at)
  end
  return at ~= nil
end
