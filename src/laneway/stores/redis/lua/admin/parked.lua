-- needs: runtime/base, state/lanes
-- gives: parked_sets
-- What is parked and held where, for those who only look.

local parked_sets = {}

function parked_sets.key(lane, gate)
  return PREFIX .. 'parked:' .. #lane .. ':' .. lane .. ':' .. gate
end

-- Return the runs that stand in a session's book, which is given as it is kept: the first that it holds.
function parked_sets.heads_in(text)
  local _, _, _, taken, _, _, _, heads = unpack(unpacked(text), 1, 8)
  local found = {}
  for member in gmatch(sub(heads, taken + 1), '(%d+) %-?%d+ ') do
    found[#found + 1] = tonumber(member)
  end
  return found
end

-- Return them of all sessions, by name.
function parked_sets.heads()
  local books, found = call('HGETALL', PREFIX .. 'sessions'), {}
  for i = 1, #books, 2 do
    found[books[i]] = parked_sets.heads_in(books[i + 1])
  end
  return found
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
