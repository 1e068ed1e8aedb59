-- needs: runtime/base, state/lanes
-- gives: parked_sets
-- What is parked and held where, for those who only look.

local parked_sets = {}

function parked_sets.key(lane, gate)
  return PREFIX .. 'parked:' .. #lane .. ':' .. lane .. ':' .. gate
end

-- Go through the gates of tasks, breakers and paused sessions that have parked sets: call `visit(lane, gate, name)`,
-- the name being a task, the key of a circuit, or a session. Gates of users are told by the seats.
function parked_sets.each(visit)
  local paused = call('SMEMBERS', PREFIX .. 'paused_sessions')
  for _, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
    for _, task in ipairs(call('SMEMBERS', PREFIX .. 'aside:' .. lane)) do
      visit(lane, 'task:' .. task, task)
    end
    for _, key in ipairs(call('SMEMBERS', PREFIX .. 'broken:' .. lane)) do
      visit(lane, 'breaker:' .. key, key)
    end
    for _, session in ipairs(paused) do
      visit(lane, 'session:' .. session, session)
    end
  end
end

-- Return how many runs each of these gates has parked: {lane, gate, name, count}, without those that have none.
function parked_sets.sizes()
  local found = {}
  parked_sets.each(function(lane, gate, name)
    local count = call('ZCARD', parked_sets.key(lane, gate))
    if count > 0 then
      found[#found + 1] = {lane, gate, name, count}
    end
  end)
  return found
end
