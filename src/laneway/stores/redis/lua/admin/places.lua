-- needs: runtime/base, state/runs, state/lanes, rules/queue/turns, rules/queue/shelves, admin/parked_sets, runtime/replies
-- gives: places, STATES
-- Where runs are that have not ended: under a lease, on a shelf, paused, or waiting. For checking and repairing.
--
-- A place is {shelf, owner, gate, numbers}: the owner is a lane, session or incarnation, "" where there is none; the
-- gate is that of a parked set, else false.

local places = {all = {}, known = {}, count = 0, deep = false, totals = {}}
local STATES = {'pending', 'running', 'paused', 'waiting', 'succeeded', 'failed', 'cancelled', 'dropped'}
local BESIDE_RUN = {'args', 'ties', 'follows', 'results', 'failures', 'saved', 'prepared'}

local function note(shelf, owner, gate, members)
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

-- Find the places by what is kept of lanes, sessions and incarnations.
local function list()
  for _, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
    note('ready', lane, false, members_of(PREFIX .. 'ready:' .. lane))
    local seats = call('HGETALL', PREFIX .. 'seats:' .. lane)
    for i = 1, #seats, 2 do
      local gate = 'user:' .. seats[i]  -- whatever the seat says: its count may be what is wrong
      note('parked', lane, gate, members_of(parked_sets.key(lane, gate)))
    end
  end
  parked_sets.each(function(lane, gate)
    note('parked', lane, gate, members_of(parked_sets.key(lane, gate)))
  end)
  for _, session in ipairs(call('HKEYS', PREFIX .. 'sessions')) do
    note('held', session, false, members_of(PREFIX .. 'held:' .. session))
  end
  note('due', '', false, members_of(PREFIX .. 'due'))
  for _, worker in ipairs(call('HKEYS', PREFIX .. 'workers')) do
    note('lease', worker, false, call('SMEMBERS', PREFIX .. 'leases:' .. worker))
  end
  for _, state in ipairs({'paused', 'waiting'}) do
    note(state, '', false, call('SMEMBERS', PREFIX .. state .. '_runs'))
  end
end

-- Compare numbers that are known without counting. Tell whether all of them agree.
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

-- Go through a hash, field by field.
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

-- Return the key of the order that the run's record names, its owner and gate; nil if it names none.
local function order_of(run)
  if run.shelf == 'ready' then
    return 'ready:' .. run.lane, run.lane, false
  elseif run.shelf == 'held' and run.session then
    return 'held:' .. run.session, run.session, false
  elseif run.shelf == 'due' then
    return 'due', '', false
  elseif run.shelf == 'parked' and (run.user or has(run.kind, STILL) or has(run.kind, ASIDE)) then
    local gate = shelves.gate_of(run)
    return 'parked:' .. #run.lane .. ':' .. run.lane .. ':' .. gate, run.lane, gate
  end
  return nil
end

local function look_for(run)
  if run.state == 'running' then
    if run.holder and call('SISMEMBER', PREFIX .. 'leases:' .. run.holder, base.digits(run.number)) == 1 then
      return note('lease', run.holder, false, {run.number})
    end
  elseif run.state == 'pending' then
    local key, owner, gate = order_of(run)
    if key and call('ZSCORE', PREFIX .. key, base.member(run.number)) then
      return note(run.shelf, owner, gate, {run.number})
    end
  end
  note('nowhere', '', false, {run.number})
end

-- Read all runs there are, and find those that no list of places has.
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
      note('unlisted', '', false, {number})
    end
    if not TERMINAL[state] and not placed[number] then
      look_for(runs.get(number))
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

-- Fill `places.all`; where numbers do not agree, by looking at everything.
function places.gather()
  list()
  places.counted, places.orphans = {}, {}
  places.deep = not agree()
  if places.deep then
    search()
  end
end

-- Return the records of all runs in places: number, record, the next number; packed.
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
