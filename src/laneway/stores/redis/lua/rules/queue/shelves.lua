-- needs: runtime/base, runtime/cached_zset, state/runs, state/lanes, state/shelf_keys, rules/queue/turns
-- needs: rules/queue/sessions, rules/queue/circuits
-- gives: shelves, BREAKER
-- Shelves: the sorted sets that pending runs are in; see core/queue/shelves.py.
--
--   due                       runs of the future, by due time
--   held:<session>            runs of a session that wait for admission, by place
--   ready:<lane>              runs that may start, by rank
--   parked:<n>:<lane>:<gate>  runs that no claim could start, by rank (n: the length of the lane's name)
--
-- Sets `aside:<lane>` and `broken:<lane>` have the tasks and the keys of circuits with parked sets there; sets
-- `aside_lanes` and `broken_lanes` have the lanes with such a set. Users' parked sets are counted in their seats.
-- Sorted set `later:<session>`: its runs that were never started and have not joined, by due time. Sorted set
-- `deadlines`: runs that wait for an answer, by when the first question expires. `run.shelf` is false if the run is on
-- none. A run that is paused while it is held stays on that shelf.

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
  return cached_zset.at(shelf_keys.parked(lane, gate))
end

-- Note whether a gate has a parked set in a lane, if claims take from such sets.
local function note_gate(lane, gate, there)
  local what, name = match(gate, '^(%a+):(.*)$')
  local kind = what == 'task' and 'aside' or what == 'breaker' and 'broken'
  if kind then
    base.put_in(kind .. ':' .. lane, name, there)
    base.put_in(kind .. '_lanes', lane, next(base.set(kind .. ':' .. lane)) ~= nil)
  end
end

-- Return the tasks (`aside`) or keys of circuits (`broken`) that have parked sets in a lane; a table of trues.
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

-- Put a run into the ones that its session holds, at that place; the session counts it already.
function shelves.put_held(run, place)
  run.shelf = 'held'
  shelves.held(run.session):put(place, run.number)
end

-- Return all runs that a session holds, in order.
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

-- Park a run behind its user, and count it in the user's seat.
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

-- Return the name of the shelf that a run is on by its record, its owner and, if it is parked, its gate.
function shelves.key_of(run)
  local owner = run.shelf == 'held' and run.session or run.shelf ~= 'due' and run.lane or ''
  local gate = run.shelf == 'parked' and shelves.gate_of(run)
  return shelf_keys.of(run.shelf, owner, gate), owner, gate
end

-- Return the rank, place or due time that a run has on its shelf.
function shelves.rank_of(run)
  return tonumber(call('ZSCORE', PREFIX .. shelves.key_of(run), base.member(run.number)) or 0)
end

-- Note whether a run of a session that was never started has still to join it.
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

-- Take the first run that is due, nil if there is none.
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

-- Return whether runs are due that have not been taken yet.
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

-- Return when the next future run is due or the next question expires, whichever is first.
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

-- Take a run from the shelf that it is on.
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

-- Return a function that takes, call by call, the first run of the lane's ready order (its argument) and of the parked
-- sets of `tasks` and `gates` (tables of trues), and returns its number and its rank. Gates may be removed between
-- calls.
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
