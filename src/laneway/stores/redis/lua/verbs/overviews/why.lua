-- needs: runtime/base, runtime/replies, state/runs, state/lanes, rules/queue/shelves, rules/queue/circuits
-- needs: admin/worker_list, admin/parked_sets, state/move_part
-- Return the facts about why a run does not start, as a snapshot; core/lifecycle/why.py decides what they mean.

local id = unpacked(ARGV[2])[1]
local number, record = replies.find(id)
if not number then
  return replies.unknown()
end
local run = runs.get(tonumber(number))

local function is_on_last_chance(run)
  return run.crashes > 0 and run.reason == 'last_chance'  -- a checkpoint resets the crashes
end

-- Return the running runs of its lane: {number, id, user}; and, if it is on its last chance, the running runs that are on
-- theirs: {number, id, worker}.
local function active()
  local found, risks = {}, {}
  for _, worker in ipairs(call('HKEYS', PREFIX .. 'workers')) do
    for _, number in ipairs(call('SMEMBERS', PREFIX .. 'leases:' .. worker)) do
      local other = runs.get(tonumber(number))
      if other and other.lane == run.lane then
        found[#found + 1] = {other.number, other.id, other.user}
      end
      if other and is_on_last_chance(run) and is_on_last_chance(other) and not other.lapsed then
        risks[#risks + 1] = {other.number, other.id, worker}
      end
    end
  end
  return {found, risks}
end

-- Return numbers and ids of these runs.
local function named(numbers)
  local found = {}
  for _, other in ipairs(numbers) do
    found[#found + 1] = {other, runs.get(other).id}
  end
  return found
end

-- Return its session's book, the runs that it holds in order, and the ids of these and of the admitted ones.
local function in_session()
  local text = run.session and call('HGET', PREFIX .. 'sessions', run.session)
  if not text then
    return pack(false)
  end
  local held = {}
  for _, member in ipairs(call('ZRANGE', PREFIX .. 'held:' .. run.session, 0, -1)) do
    held[#held + 1] = tonumber(member)
  end
  return replies.list({text, pack(held), pack(named(held)), pack(named(unpacked(text)[1]))})
end

-- Return the circuits that let no run of it start: {key, until, id of the probe}.
local function breakers()
  local found = {}
  for _, key in ipairs({run.task, circuits.key(run.task, run.user)}) do
    if not circuits.lets_start(key) then
      local circuit = circuits.get(key)
      found[#found + 1] = {key, circuit[2], circuit[3] and runs.get(circuit[3]).id or false}
    end
  end
  return found
end

-- Return how many runs of its lane's ready order are before it: all, if it is not there yet.
local function ahead()
  local ready = PREFIX .. 'ready:' .. run.lane
  if run.shelf ~= 'ready' and run.shelf ~= 'parked' then
    return call('ZCARD', ready)
  end
  local rank, member = base.digits(shelves.rank_of(run)), base.member(run.number)
  local count = call('ZCOUNT', ready, '-inf', '(' .. rank)
  for _, other in ipairs(call('ZRANGEBYSCORE', ready, rank, rank)) do
    count = count + (other < member and 1 or 0)
  end
  return count
end

local function is_in(set, name)
  return name and call('SISMEMBER', PREFIX .. set, name) == 1
end

return replies.list({
  pack({number, run.shelf, NOW, ahead()}), record, call('HGET', PREFIX .. 'lanes', run.lane), pack(active()),
  in_session(),
  pack(breakers()), worker_list.all(), worker_list.heartbeat(),
  pack({
    call('HGET', PREFIX .. 'set_caps', run.lane .. '\n' .. (run.user or '')), is_in('paused_users', run.user),
    is_in('paused_sessions', run.session), is_in('paused_tasks', run.task),
  }), pack(move_part.standing()),
})
