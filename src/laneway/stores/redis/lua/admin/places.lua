-- needs: runtime/base, runtime/replies, state/runs, state/lanes, rules/queue/turns, rules/queue/shelves
-- needs: admin/parked_sets
-- gives: places, STATES
-- The places of runs that have not ended: under a lease, on a shelf, paused, or waiting. For check and repair.
--
-- A place is {shelf, owner, gate, numbers}: the owner is a lane, session or incarnation, "" if there is none; the gate
-- is that of a parked set, else false.

local places = {all = {}, known = {}, count = 0, is_deep = false, totals = {}}
local STATES = {'pending', 'running', 'paused', 'waiting', 'succeeded', 'failed', 'cancelled', 'dropped'}
local BESIDE_RUN = {'args', 'ties', 'follows', 'results', 'failures', 'saved', 'prepared'}

local function add(shelf, owner, gate, members)
  if #members == 0 then
    return
  end
  for i = 1, #members do
    local number = tonumber(members[i])
    members[i] = number
    if not places.known[number] then
      places.known[number] = true
      places.count = places.count + 1
    end
  end
  places.all[#places.all + 1] = {shelf, owner, gate, members}
end

local function members_of(key)
  return call('ZRANGE', key, 0, -1)
end

-- Find the places that lanes, sessions and incarnations name.
local function list()
  for _, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
    add('ready', lane, false, members_of(PREFIX .. 'ready:' .. lane))
    local seats = call('HGETALL', PREFIX .. 'seats:' .. lane)
    for i = 1, #seats, 2 do
      local gate = 'user:' .. seats[i]  -- also if the seat counts none: the count may be wrong
      add('parked', lane, gate, members_of(parked_sets.key(lane, gate)))
    end
  end
  parked_sets.each(function(lane, gate)
    add('parked', lane, gate, members_of(parked_sets.key(lane, gate)))
  end)
  for _, session in ipairs(call('HKEYS', PREFIX .. 'sessions')) do
    add('held', session, false, members_of(PREFIX .. 'held:' .. session))
  end
  add('due', '', false, members_of(PREFIX .. 'due'))
  for _, worker in ipairs(call('HKEYS', PREFIX .. 'workers')) do
    add('lease', worker, false, call('SMEMBERS', PREFIX .. 'leases:' .. worker))
  end
  for _, state in ipairs({'paused', 'waiting'}) do
    add(state, '', false, call('SMEMBERS', PREFIX .. state .. '_runs'))
  end
end

-- Compare the totals that a server knows without reading runs. Return whether all of them agree.
local function agree()
  local totals, ended, sum, blocks = places.totals, 0, 0, 0
  totals.runs, totals.ids, totals.args =
    call('HLEN', PREFIX .. 'runs'), call('HLEN', PREFIX .. 'ids'), call('HLEN', PREFIX .. 'args')
  totals.long_args = tonumber(call('HGET', PREFIX .. 'counters', 'long_args') or 0)
  local fine = totals.runs == totals.ids and totals.args == totals.long_args
  for _, state in ipairs(STATES) do
    local count = tonumber(call('HGET', PREFIX .. 'states', state) or 0)
    totals[state], sum = count, sum + count
    if TERMINAL[state] then
      local listed = call('ZCARD', PREFIX .. 'ended:' .. state)
      ended, fine = ended + listed, fine and listed == count
    elseif BESIDE[state] then
      fine = fine and call('SCARD', PREFIX .. state .. '_runs') == count
    end
  end
  for _, count in ipairs(call('HVALS', PREFIX .. 'blocks')) do
    blocks = blocks + tonumber(count)
  end
  totals.blocks = blocks
  return fine and sum == totals.runs and blocks == totals.runs and places.count + ended == totals.runs
end

-- Call `visit` with each field and value of a hash, some maybe twice.
function places.each_field(name, visit)
  local cursor = '0'
  repeat
    local page = call('HSCAN', PREFIX .. name, cursor, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      visit(page[2][i], page[2][i + 1])
    end
  until cursor == '0'
end

-- Return whether the run's record names a shelf that a run may be on.
local function has_shelf(run)
  if run.shelf == 'held' then
    return run.session
  elseif run.shelf == 'parked' then
    return run.user or has(run.kind, STILL) or has(run.kind, ASIDE)
  end
  return run.shelf
end

-- Find a run that is in no place above where its record says that it is.
local function find_by_record(run)
  if run.state == 'running' then
    if run.holder and call('SISMEMBER', PREFIX .. 'leases:' .. run.holder, base.digits(run.number)) == 1 then
      return add('lease', run.holder, false, {run.number})
    end
  elseif run.state == 'pending' and has_shelf(run) then
    local key, owner, gate = shelves.key_of(run)
    if call('ZSCORE', PREFIX .. key, base.member(run.number)) then
      return add(run.shelf, owner, gate, {run.number})
    end
  end
  add('nowhere', '', false, {run.number})
end

-- Read all runs, count them, and find those that are in no place above, and what is left of deleted ones.
local function search()
  local counted, seen, blocks, orphans, placed, long_args = {}, {}, {}, {}, {}, 0
  for number in pairs(places.known) do
    placed[number] = true
  end
  places.each_field('runs', function(field, text)
    if seen[field] then
      return
    end
    seen[field] = true
    local packed, number = unpacked(text), tonumber(field)
    local id, state, block = packed[21], packed[3], base.digits(math.floor(number / 1000))
    counted[state] = (counted[state] or 0) + 1
    long_args = long_args + (packed[24] and 0 or 1)
    blocks[block] = (blocks[block] or 0) + 1
    local lost = TERMINAL[state] and not call('ZSCORE', PREFIX .. 'ended:' .. state, base.member(number))
    if lost or call('HGET', PREFIX .. 'ids', id) ~= field then
      add('unlisted', '', false, {number})
    end
    if not TERMINAL[state] and not placed[number] then
      find_by_record(runs.get(number))
    end
  end)
  for _, name in ipairs(BESIDE_RUN) do
    places.each_field(name, function(field)
      if not seen[field] then
        orphans[#orphans + 1] = {name, field, tonumber(field)}
      end
    end)
  end
  places.each_field('ids', function(id, field)
    if not seen[field] then
      orphans[#orphans + 1] = {'ids', id, tonumber(field)}
    end
  end)
  for _, state in ipairs(STATES) do
    if TERMINAL[state] then
      for _, member in ipairs(members_of(PREFIX .. 'ended:' .. state)) do
        if not seen[base.digits(tonumber(member))] then
          orphans[#orphans + 1] = {'ended:' .. state, member, tonumber(member)}
        end
      end
    end
  end
  places.counted, places.blocks, places.orphans = counted, blocks, orphans
  places.totals.counted_long_args = long_args
end

-- Fill `places`; if the totals do not agree, by reading everything.
function places.gather()
  list()
  places.counted, places.orphans = {}, {}
  places.is_deep = not agree()
  if places.is_deep then
    search()
  end
end

-- Return the records of all runs in places, packed: numbers and records in turn.
function places.records()
  local numbers, parts = {}, {}
  for number in pairs(places.known) do
    numbers[#numbers + 1] = number
  end
  for first = 1, #numbers, 1000 do
    local fields = {}
    for i = first, min(first + 999, #numbers) do
      fields[#fields + 1] = base.digits(numbers[i])
    end
    local texts = call('HMGET', PREFIX .. 'runs', unpack(fields))
    for i = 1, #fields do
      parts[#parts + 1] = pack(numbers[first + i - 1])
      parts[#parts + 1] = texts[i] or pack(false)
    end
  end
  return replies.list(parts)
end
