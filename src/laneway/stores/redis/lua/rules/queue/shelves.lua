-- needs: runtime/base, runtime/cached_zset, state/runs, state/lanes, rules/queue/turns, rules/queue/sessions
-- needs: rules/queue/circuits
-- gives: shelves, BREAKER
-- Shelves: where pending runs are, each in a sorted set of its own; see core/queue/shelves.py.
--
--   due                       runs of the future, by due time
--   held:<session>            runs of a session that wait to be admitted, by place
--   ready:<lane>              runs that may start, by rank
--   parked:<n>:<lane>:<gate>  runs a claim could not start, by rank (n: the length of the lane's name)
-- Sets `aside:<lane>` and `broken:<lane>` name the tasks and the keys of circuits that have parked sets there, sets
-- `aside_lanes` and `broken_lanes` the lanes of which there is such a set. Users' parked sets are counted by their seats.
-- Sorted sets `later:<session>`: its runs that were never started and have not joined, by due time; `deadlines`: runs
-- that wait for an answer, by the last instant for one.
-- `run.shelf` is false when it is on none. A run that is paused while it is held stays on that shelf.

local shelves = {}
local TASK, BREAKER = 'task:', 'breaker:'

function shelves.gate_of(run)
  if has(run.kind, STILL) then
    return 'session:' .. run.session
  elseif has(run.kind, BROKEN) then
    return BREAKER .. run.task
  elseif has(run.kind, BROKEN_USER) then
    return BREAKER .. circuits.key(run.task, run.user)
  end
  return has(run.kind, ASIDE) and TASK .. run.task or 'user:' .. run.user
end

function shelves.parked(lane, gate)
  return cached_zset.at('parked:' .. #lane .. ':' .. lane .. ':' .. gate)
end

-- Remember whether a gate has a parked set in a lane, for those that a claim takes from.
local function note_gate(lane, gate, there)
  local what, name = match(gate, '^(%a+):(.*)$')
  local kind = what == 'task' and 'aside' or what == 'breaker' and 'broken'
  if kind then
    base.put_in(kind .. ':' .. lane, name, there)
    base.put_in(kind .. '_lanes', lane, next(base.set(kind .. ':' .. lane)) ~= nil)
  end
end

-- Return what has parked sets in a lane, tasks (`aside`) or keys of circuits (`broken`); a table of trues.
function shelves.gated(kind, lane)
  return base.set(kind .. '_lanes')[lane] and base.set(kind .. ':' .. lane) or {}
end

function shelves.ready(lane)
  return cached_zset.at('ready:' .. lane)
end

function shelves.held(session)
  return cached_zset.at('held:' .. session)
end

-- Put a run into the ready order of its lane.
function shelves.put_ready(lane, number, kind, rank)
  shelves.ready(lane):put(rank, number)
  runs.place(number, 'ready', kind)
end

-- Put a run behind its session, which counts it already, at that place.
function shelves.put_held(run, place)
  run.shelf = 'held'
  shelves.held(run.session):put(place, run.number)
end

-- Return all runs that a session holds back, in order.
function shelves.all_held(session)
  return runs.all_of(shelves.held(session):all())
end

function shelves.put_parked(run, gate, rank)
  run.shelf = 'parked'
  shelves.parked(run.lane, gate):put(rank, run.number)
  note_gate(run.lane, gate, true)
end

function shelves.take_parked(lane, gate)
  local order = shelves.parked(lane, gate)
  local number, rank = order:take()
  runs.get(number).shelf = false
  if order:is_empty() then
    note_gate(lane, gate, false)
  end
  return number, rank
end

-- Put a run behind its user, whose seat counts it then.
function shelves.park(lane, user, seat, number, kind, rank)
  seat.parked = seat.parked + 1
  shelves.parked(lane, 'user:' .. user):put(rank, number)
  runs.place(number, 'parked', kind)
end

-- Take the first run that is parked behind a user; return its number.
function shelves.unpark(lane, user, seat)
  seat.parked = seat.parked - 1
  return (shelves.parked(lane, 'user:' .. user):take())
end

-- Return the rank, place or due time by which a run stands on its shelf.
function shelves.rank_of(run)
  local key
  if run.shelf == 'parked' then
    key = 'parked:' .. #run.lane .. ':' .. run.lane .. ':' .. shelves.gate_of(run)
  else
    key = run.shelf == 'due' and 'due' or run.shelf .. ':' .. (run.shelf == 'held' and run.session or run.lane)
  end
  return tonumber(call('ZSCORE', PREFIX .. key, base.member(run.number)) or 0)
end

-- Tell of a run of a session that was never started whether it is still to join.
function shelves.note_later(run, there)
  if run.session and run.fence == 0 then
    local order = cached_zset.at('later:' .. run.session)
    if there then
      order:put(run.due_at, run.number)
    else
      order:remove(run.number)
    end
  end
end

function shelves.put_due(run)
  run.shelf = 'due'
  cached_zset.at('due'):put(run.due_at, run.number)
  shelves.note_later(run, true)
end

-- Take the first run that is due.
function shelves.take_due()
  local order = cached_zset.at('due')
  local at, number = order:first()
  if not at or at > NOW then
    return nil
  end
  order:take()
  local run = runs.get(number)
  run.shelf = false
  shelves.note_later(run, false)
  return run
end

function shelves.is_behind()
  local at = cached_zset.at('due'):first()
  return at ~= nil and at <= NOW
end

function shelves.put_deadline(run)
  local till = runs.deadline(run)
  if till then
    cached_zset.at('deadlines'):put(till, run.number)
  end
end

function shelves.clear_deadline(run)
  if run.wait and #run.wait.questions > 0 then
    cached_zset.at('deadlines'):remove(run.number)
  end
end

-- Return when the next future run is due, or a question is answered too late, whichever is first.
function shelves.next_due()
  if base.is_absent('due') and not cached_zset.is_known('due') and not cached_zset.is_known('deadlines') then
    return nil
  end
  local due, late = cached_zset.at('due'):first(), cached_zset.at('deadlines'):first()
  if due and late then
    return min(due, late)
  end
  return due or late
end

-- Take a run out from wherever it is.
function shelves.remove(run)
  local shelf = run.shelf
  if shelf == 'held' then
    shelves.held(run.session):remove(run.number)
  elseif shelf == 'parked' then
    local gate = shelves.gate_of(run)
    local order = shelves.parked(run.lane, gate)
    order:remove(run.number)
    if order:is_empty() then
      note_gate(run.lane, gate, false)
    end
  elseif shelf == 'ready' then
    shelves.ready(run.lane):remove(run.number)
  elseif shelf == 'due' then
    cached_zset.at('due'):remove(run.number)
    shelves.note_later(run, false)
  end
  run.shelf = false
end

-- Return what takes, call by call, the first run of the lane's ready order and of the parked sets of `tasks` and
-- `gates` (tables of trues): its number and its rank. It is given the ready order. One of `gates` may be taken away
-- meanwhile.
function shelves.taking(lane, tasks, gates)
  local order = shelves.ready(lane)
  local aside = {}
  for task in pairs(shelves.gated('aside', lane)) do
    if tasks[task] then
      aside[#aside + 1] = TASK .. task
    end
  end
  if #aside == 0 and next(gates) == nil then
    return order.take
  end
  return function()
    local rank, number = order:first()
    local found
    local function look(gate)
      local other_rank, other = shelves.parked(lane, gate):first()
      if other and (not number or other_rank < rank or (other_rank == rank and other < number)) then
        rank, number, found = other_rank, other, gate
      end
    end
    for i = 1, #aside do
      look(aside[i])
    end
    for gate in pairs(gates) do
      look(gate)
    end
    if found then
      return shelves.take_parked(lane, found)
    elseif not number then
      return nil
    end
    return order:take()
  end
end
