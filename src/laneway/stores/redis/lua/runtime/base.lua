-- gives: base, call_later, MOST_MOVES
-- The base of every script: caches for what it reads, and a list of writes that are made together at its end.
--
-- A script reads what it needs, decides on tables of its own, and writes only in `base.flush`, the last thing it does.
--
-- Invariant: Redis undoes nothing, so whatever fails before `base.flush` has changed nothing.

local base = {}
local MOST_MOVES = 500  -- runs that one call may move before it answers "more"
local PIECE = 1000  -- values in one variadic command: Lua's stack is limited

-- Begin and end of a call -----------------------------------------------------------------------------------------

local writers = {}  -- called at each flush, in the order in which the modules stand in the script
local writers_once = {}  -- called at the flush of this call only
local later = {}  -- commands of this call

-- Register `reset` to be called before each call: it drops what the module has cached in the call before.
function base.at_begin(reset)
  begins[#begins + 1] = reset
end

-- Register `write` to be called at each flush.
function base.at_end(write)
  writers[#writers + 1] = write
end

-- Register `write` to be called at the flush of this call.
function base.at_this_end(write)
  writers_once[#writers_once + 1] = write
end

function base.flush()
  for i = 1, #writers do
    writers[i]()
  end
  for i = 1, #writers_once do
    writers_once[i]()
  end
end

base.at_begin(function()
  writers_once, later, base.wrote_events = {}, {}, false
end)

-- Drop all caches: what follows reads the server again, as another call at the same instant would.
function base.begin_again()
  for i = 1, #begins do
    begins[i]()
  end
end

-- Send a command at the flush; the key comes without the prefix.
local function call_later(command, key, ...)
  later[#later + 1] = {command, PREFIX .. key, ...}
end

base.at_end(function()
  for i = 1, #later do
    call(unpack(later[i]))
  end
end)

-- Send a variadic command in pieces. `list` holds its values; pairs stay together, because a piece is even.
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
local MANY = 64  -- fields and values in one command, from which on the hash is converted

-- Set fields of a hash: a list of fields and values.
--
-- A server keeps a small hash as one string and scans it for every field. A value longer than 64 bytes converts the
-- hash to a table for good. So the first field is set to a long value first; the same command then sets the right one.
function base.send_fields(key, sets)
  local at = #sets
  if at > MANY then
    sets[at + 1], sets[at + 2], sets[at + 3], sets[at + 4] = sets[1], LONG, sets[1], sets[2]
  end
  base.send('HSET', key, sets)
end

-- Full memory: a server checks it at the first write of a script only. Functions declare by a flag whether they may
-- write then; scripts show it by the command that they write first.

-- Fail now if the memory is full: for verbs that bring new runs.
function base.refuse_full()
  if not IN_LIBRARY then
    call('HINCRBY', PREFIX .. 'counters', 'number', 0)
  end
end

-- Write although the memory is full: for verbs that only finish what was accepted. DEL needs no memory.
function base.allow_full()
  if not IN_LIBRARY then
    call('DEL', PREFIX .. 'none')
  end
end

-- Counters: hashes of whole numbers -------------------------------------------------------------------------------

local increments = {}  -- by key, then field

base.at_begin(function()
  increments = {}
end)

-- Return the increments of a hash by field, for callers that count often and change them directly.
function base.increments(key)
  local fields = increments[key]
  if not fields then
    fields = {}
    increments[key] = fields
  end
  return fields
end

function base.count(key, field, by)
  local fields = base.increments(key)
  fields[field] = (fields[field] or 0) + by
end

base.at_end(function()
  for key, fields in pairs(increments) do
    for field, by in pairs(fields) do
      if by ~= 0 and call('HINCRBY', PREFIX .. key, field, by) == 0 then
        call('HDEL', PREFIX .. key, field)
      end
    end
  end
end)

-- Hashes of plain texts -------------------------------------------------------------------------------------------

local texts = {}  -- by name, then field; false: deleted

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

-- Set a field; false deletes it.
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
    local sets, deleted = {}, {}
    for field, value in pairs(fields) do
      if value then
        sets[#sets + 1] = field
        sets[#sets + 1] = value
      else
        deleted[#deleted + 1] = field
      end
    end
    base.send('HDEL', PREFIX .. name, deleted)
    base.send('HSET', PREFIX .. name, sets)
  end
end)

-- Sets of names: small, read whole on first use -------------------------------------------------------------------

-- Keys that rarely exist and that every step or submission checks. One or two EXISTS commands answer for all of them.
local RARE_KEYS = {
  'disabled', 'takers', 'paused_tasks', 'aside_lanes', 'broken_lanes', 'open', 'due', 'deadlines', 'jobs_due',
}
local RARER = 6  -- so many of them, from the first on, exist even more rarely
local place_of, keys, prefix_of_keys = {}, {}, nil
local absent  -- how many of them, from the first on, did not exist when this call began

for place, name in ipairs(RARE_KEYS) do
  place_of[name] = place
end

local function check_rare_keys()
  if prefix_of_keys ~= PREFIX then
    prefix_of_keys = PREFIX
    for place, name in ipairs(RARE_KEYS) do
      keys[place] = PREFIX .. name
    end
  end
  if call('EXISTS', unpack(keys)) == 0 then
    absent = #RARE_KEYS
  else
    absent = call('EXISTS', unpack(keys, 1, RARER)) == 0 and RARER or 0
  end
end

-- Return whether it is known that a key did not exist when this call began.
function base.is_absent(name)
  local place = place_of[name]
  if not place then
    return false
  end
  if not absent then
    check_rare_keys()
  end
  return place <= absent
end

local NO_MEMBERS = {}  -- never written to
local sets, changed_sets = {}, {}

-- Return the members of a set as a table of trues. Change it by `base.put_in` only.
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

base.at_begin(function()
  sets, changed_sets, absent = {}, {}, nil
end)

-- Add a member to a set, or remove it.
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

-- Small tools -----------------------------------------------------------------------------------------------------

-- Return the reply of a refused call: a word that says why, and facts, all texts. verbs/base.py raises the error.
function base.refusal(word, ...)
  return redis.error_reply('LANEWAY ' .. word .. (select('#', ...) > 0 and ' ' .. cjson.encode({...}) or ''))
end

-- Cached, because formatting is slow and most numbers are needed more than once.
local digits, members = {}, {}

base.at_begin(function()
  digits, members = {}, {}
end)

local SMALL = 2147483648  -- below it '%d' is right on every server, and faster

-- Return a whole number as text; `tostring` rounds numbers of more than 14 digits.
function base.digits(number)
  local text = digits[number]
  if not text then
    text = string.format(number < SMALL and number > -SMALL and '%d' or '%.0f', number)
    digits[number] = text
  end
  return text
end

-- Return the name of a run in sorted sets: its number with 15 digits, so that equal ranks keep the order of acceptance.
-- The number may be given as text.
function base.member(number)
  local text = members[number]
  if not text then
    text = string.format('%015.0f', number)
    members[number] = text
  end
  return text
end

-- Return whether a text comes before another one, byte by byte as in sorted sets; Lua compares by the server's locale.
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
