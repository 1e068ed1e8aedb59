-- needs: runtime/base, state/lanes, state/shelf_keys
-- The sets of parked runs, for verbs that only read.

local parked_sets = {}

function parked_sets.key(lane, gate)
  return PREFIX .. shelf_keys.parked(lane, gate)
end

-- Call `visit(lane, gate, name)` for each gate of a task, breaker or paused session that may have a parked set; the
-- name is that of the task or session, or the key of the circuit. Gates of users are known from the seats.
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

-- Return how many runs are parked behind each of these gates: {lane, gate, name, count}, without empty ones.
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
