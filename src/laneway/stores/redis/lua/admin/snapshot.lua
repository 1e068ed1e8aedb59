-- needs: runtime/base, runtime/replies, admin/places
-- gives: snapshot, due_times
-- A snapshot of everything that must agree; verbs/snapshot.py reads it.

local function of_lanes(name)
  local parts = {}
  for _, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
    parts[#parts + 1] = pack(lane)
    parts[#parts + 1] = replies.hash(name .. ':' .. lane)
  end
  return replies.list(parts)
end

-- Return the tasks (`aside`) or keys of circuits (`broken`) that claims look for: {lane, name}.
local function gates(kind)
  local found = {}
  for _, lane in ipairs(call('SMEMBERS', PREFIX .. kind .. '_lanes')) do
    for _, name in ipairs(call('SMEMBERS', PREFIX .. kind .. ':' .. lane)) do
      found[#found + 1] = {lane, name}
    end
  end
  return pack(found)
end

local function caps()
  local found = {}
  for _, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
    local flat = call('HGETALL', PREFIX .. 'caps:' .. lane)
    for i = 1, #flat, 2 do
      found[#found + 1] = {lane, flat[i], tonumber(flat[i + 1])}
    end
  end
  return pack(found)
end

-- Return how many runs of which lanes each incarnation executes by its counts: {incarnation, lane, count}.
local function busy()
  local found = {}
  for _, worker in ipairs(call('HKEYS', PREFIX .. 'workers')) do
    local flat = call('HGETALL', PREFIX .. 'busy:' .. worker)
    for i = 1, #flat, 2 do
      found[#found + 1] = {worker, flat[i], tonumber(flat[i + 1])}
    end
  end
  return pack(found)
end

-- Return when jobs are due by their states: ids and times (or false) in turn.
local function due_times()
  local found = call('HGETALL', PREFIX .. 'jobs')
  for i = 2, #found, 2 do
    found[i] = unpacked(found[i])[5][4]
  end
  return found
end

local function snapshot()
  places.gather()
  local totals = {}
  for name, count in pairs(places.totals) do
    totals[#totals + 1], totals[#totals + 2] = name, count
  end
  local counted = {}
  for state, count in pairs(places.counted) do
    counted[#counted + 1], counted[#counted + 2] = state, count
  end
  return replies.list({
    pack(places.all), places.records(), pack(totals), pack(places.is_deep), pack(counted), pack(places.orphans),
    replies.hash('lanes'), of_lanes('seats'), caps(), replies.hash('sessions'), gates('aside'),
    gates('broken'), replies.hash('circuits'), replies.members('open'), replies.members('working'),
    pack(call('HKEYS', PREFIX .. 'workers')), busy(),
    pack(call('ZRANGE', PREFIX .. 'deadlines', 0, -1, 'WITHSCORES')), pack(due_times()),
    pack(call('ZRANGE', PREFIX .. 'jobs_due', 0, -1, 'WITHSCORES')),
  })
end
