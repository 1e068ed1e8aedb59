-- needs: runtime/base, runtime/cached_zset, state/runs, state/lanes, rules/turns, state/sessions, rules/circuits
-- needs: rules/holding
-- gives: shelves, BREAKER, LEAST_LONE
-- Shelves: where pending runs are, each in an order of its own; see core/shelves.py.
--
--   due                       runs of the future, by due time
--   held:<session>            runs of a session that wait to be admitted, by place (holding.lua)
--   ready:<lane>              runs that may start, by rank
--   parked:<n>:<lane>:<gate>  runs a claim could not start, by rank (n: the length of the lane's name)
-- The runs that a user keeps from starting stand in the user's seat (`line`) while they are few: rank, number as text,
-- what it is brought back by (`ticket`), the next rank; the first of them first, the others as they come. Else all of them
-- are parked under the gate `user:<user>`.
-- Sets `aside:<lane>` and `broken:<lane>` name the tasks and the keys of circuits that have parked sets there, sets
-- `aside_lanes` and `broken_lanes` the lanes of which there is such a set.
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

local function parked(lane, gate)
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

-- Return the same by the lane's book, which keeps it.
function shelves.ready_of(book)
  local order = cached_zset.at('ready:' .. book.name)
  book.order_ = order
  return order
end

local put = cached_zset.put

-- Put a run into the ready order of its lane. If its start lets nobody into its session, its number is given as text,
-- too.
function shelves.put_ready(book, number, kind, rank, field)
  put(book.order_ or shelves.ready_of(book), rank, number)
  local kinds = runs.kinds
  if not kinds then
    runs.place(number, false, kind, field)
  elseif field then
    runs.lone[number] = field
  else
    kinds[number] = kind
  end
end

function shelves.put_parked(run, gate, rank)
  run.shelf = 'parked'
  parked(run.lane, gate):put(rank, run.number)
  note_gate(run.lane, gate, true)
end

function shelves.take_parked(lane, gate)
  local order = parked(lane, gate)
  local number, rank = order:take()
  runs.get(number).shelf = false
  if order:is_empty() then
    note_gate(lane, gate, false)
  end
  return number, rank
end

-- The same for those that their user keeps from starting ---------------------------------------------------------------

local MOST_IN_LINE = 8
-- The ticket is twice the run's priority, one more if it was started before: -200 to 201.
local LONE_TICKET = 1000  -- is added to that of a run whose start lets nobody into its session
local LEAST_LONE = 500  -- no ticket is as much without it, nor less with it

local function leave_line(lane, user, seat)
  local line, order = seat.line, parked(lane, 'user:' .. user)
  for at = 1, line and #line or 0, 3 do
    order:put(line[at], line[at + 1] + 0)
  end
  seat.line = false
  return order
end

-- Put a run behind its user, by its number as text; `seat` counts it.
local function put_in_line(lane, user, seat, field, rank, ticket)
  local line, count = seat.line, seat.parked
  seat.parked = count + 1
  if count == 0 then
    seat.line = {rank, field, ticket}
  elseif line and count < MOST_IN_LINE then
    local at, first = 3 * count + 1, line[1]
    if rank < first or (rank == first and field + 0 < line[2] + 0) then
      line[at], line[at + 1], line[at + 2] = first, line[2], line[3]
      at = 1
    end
    line[at], line[at + 1], line[at + 2] = rank, field, ticket
  else
    leave_line(lane, user, seat):put(rank, field + 0)
  end
end

-- Take out of a line what stands at that place, one of several. The table keeps its size for what comes next.
local function pull(line, place)
  local last = #line - 2
  if place == 1 and last == 4 then
    line[1], line[2], line[3], line[6], line[5], line[4] = line[4], line[5], line[6], nil, nil, nil
    return
  elseif place == 1 and last > 4 then  -- the next by rank takes its place
    local rank = line[4]
    place = 4
    for at = 7, last, 3 do
      local other = line[at]
      if other < rank or (other == rank and line[at + 1] + 0 < line[place + 1] + 0) then
        place, rank = at, other
      end
    end
    line[1], line[2], line[3] = rank, line[place + 1], line[place + 2]
  end
  if place < last then
    line[place], line[place + 1], line[place + 2] = line[last], line[last + 1], line[last + 2]
  end
  line[last + 2], line[last + 1], line[last] = nil, nil, nil
end

shelves.pull, shelves.LONE_TICKET = pull, LONE_TICKET

-- Park a run behind its user.
function shelves.park(lane, user, seat, number, priority, kind, rank)
  runs.place(number, true, kind)
  put_in_line(lane, user, seat, base.digits(number), rank, 2 * priority + kind % 2)
end

-- Do so with one that its session has just admitted, as the only one it lets in; its number is given as text.
function shelves.park_lone(lane, user, seat, field, priority, rank)
  if not runs.kinds then
    runs.park(field)
  end
  local line, count = seat.line, seat.parked
  if not line or count >= MOST_IN_LINE or rank <= line[1] then
    put_in_line(lane, user, seat, field, rank, LONE_TICKET + 2 * priority)
    return
  end
  local at = 3 * count
  line[at + 1], line[at + 2], line[at + 3], seat.parked = rank, field, LONE_TICKET + 2 * priority, count + 1
end

-- Take the first run that is parked behind a user; return its number, its priority, its kind as one that is back, and, if
-- its start lets nobody into its session, its number as text.
function shelves.unpark(lane, user, seat)
  local line, count = seat.line, seat.parked
  seat.parked = count - 1
  if not line then
    local run = runs.get(parked(lane, 'user:' .. user):take())
    return run.number, run.priority, BACK + run.kind % 2
  end
  local field, ticket = line[2], line[3]
  if count > 1 then
    pull(line, 1)
  else
    seat.line = false
  end
  if ticket >= LEAST_LONE then
    return field + 0, (ticket - LONE_TICKET) / 2, BACK, field
  end
  local again = ticket % 2
  return field + 0, (ticket - again) / 2, BACK + again * AGAIN
end

-- Let the start of a run be looked at by its session.
function sessions.expect_start(number)
  local run = runs.get(number)
  local line = run and run.shelf == 'parked' and run.user and lanes.seat(lanes.get(run.lane), run.user).line
  for at = 3, line and #line or 0, 3 do
    if line[at - 1] == base.digits(number) and line[at] >= LEAST_LONE then
      line[at] = line[at] - LONE_TICKET
    end
  end
end

-- Take a run out of the line of its user, if it stands there; tell if so. Whoever does this counts it.
local function step_out_of_line(lane, user, number)
  local seat = lanes.seat(lanes.get(lane), user)
  local line, field = seat.line, base.digits(number)
  for at = 1, line and #line or 0, 3 do
    if line[at + 1] == field then
      pull(line, at)
      seat.line = line[1] and line or false
      return true
    end
  end
  return false
end

-- Return the rank of a run that is ready or parked, as it is kept.
function shelves.rank_of(run)
  if run.shelf == 'parked' and run.user and not (has(run.kind, STILL) or has(run.kind, ASIDE)) then
    local seat = lanes.seat(lanes.get(run.lane), run.user)
    for place = 1, seat.line and #seat.line or 0, 3 do
      if seat.line[place + 1] == base.digits(run.number) then
        return seat.line[place]
      end
    end
  end
  local key = run.shelf == 'ready' and 'ready:' .. run.lane
    or 'parked:' .. #run.lane .. ':' .. run.lane .. ':' .. shelves.gate_of(run)
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
    holding.leave(run.session, sessions.get(run.session)):remove(run.number)
  elseif shelf == 'parked' and not (has(run.kind, STILL) or has(run.kind, ASIDE)) then
    if not step_out_of_line(run.lane, run.user, run.number) then
      parked(run.lane, 'user:' .. run.user):remove(run.number)
    end
  elseif shelf == 'parked' then
    local gate = shelves.gate_of(run)
    local order = parked(run.lane, gate)
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

-- Take a run out of a seat or the book of a session, if it stands there; tell if so. A place is as places.lua has it.
function shelves.drop_from_book(place, number)
  local shelf, owner, user = place[1], place[2], place[3] and match(place[3], '^user:(.*)$')
  if shelf == 'parked' and user then
    return step_out_of_line(owner, user, number)
  end
  local book = shelf == 'held' and sessions.find(owner)
  if not book or not holding.score_of(book, number) then
    return false
  end
  holding.leave(owner, book):remove(number)
  return true
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
      local other_rank, other = parked(lane, gate):first()
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
