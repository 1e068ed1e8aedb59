-- needs: runtime/base, state/runs, state/lanes, rules/turns, state/sessions, rules/circuits, rules/shelves
-- needs: rules/flow, fast/alike
-- Which pending run may start: the claim. This restates core/flow.py, where the rules and invariants are explained.

local claiming = {}

-- Park a run behind its user that was taken from the ready order; `of` tells whose it is.
local function park(book, number, of, kind, rank)
  local user, seat = of.user, lanes.seat(book, of.user)
  turns.leave(book, of, kind)
  shelves.park(book.name, user, seat, number, of.priority, without(kind, BACK), rank)
  bring_back(book, user, seat)
end

-- Return the gates of breakers in a lane behind which runs wait that may start now; a table of trues.
function claiming.opened(lane, tasks)
  local gates = {}
  for key in pairs(shelves.gated('broken', lane)) do
    if tasks[circuits.task_of(key)] and circuits.lets_start(key) then
      gates[BREAKER .. key] = true
    end
  end
  return gates
end

-- Set the run aside if the asker does not know its task, or a breaker keeps it from starting; tell if so. If it goes on
-- to be started, breakers have heard of it, and those that let no more start are none of the `gates` any more.
local function set_aside(book, run, rank, tasks, gates)
  local key
  if tasks[run.task] then
    if run.user and turns.must_park(book, run.user, lanes.seat(book, run.user), run.priority, run.kind) then
      return false
    end
    key = circuits.holds(run.task, run.user)
    if not key then
      for _, full in ipairs(circuits.start(run)) do
        gates[BREAKER .. full] = nil
      end
      return false
    end
  end
  local back = has(run.kind, BACK)
  turns.set_aside(book, run)
  if key then
    run.kind = with(run.kind, key == run.task and BROKEN or BROKEN_USER)
  end
  shelves.put_parked(run, shelves.gate_of(run), rank)
  if back and run.user then
    bring_back(book, run.user, lanes.seat(book, run.user))
  end
  return true
end

-- Count a run as started that came as `kind`, at that rank, and let follow what waited for it; `of` tells whose it is.
local function start(book, of, seat, kind, rank)
  turns.start(book, of.priority, seat, kind, rank, 1)
  if seat and seat.parked > 0 and kind % 4 >= BACK
    and not (book.uncapped and book.per_user and seat.active >= book.per_user) then
    bring_back(book, of.user, seat)
  end
  if of.session and kind % 2 < AGAIN then
    local session = sessions.get(of.session)
    session.unstarted_then = 0
    if session.held > 0 and #session.admitted < sessions.limit(session) then
      admit(of.session, session)
    end
  end
end

-- Start a run that was taken from its shelf and has to be looked at, or put it where it has to wait; tell which.
local function start_run(book, run, rank, asker, gates, started)
  run.shelf = false
  if has(run.kind, ASIDE) then
    turns.set_back(book, run)
  end
  local kind, user = run.kind, run.user
  if not asker.free[run.task] and set_aside(book, run, rank, asker.tasks, gates) then
    return false
  end
  local seat = user and lanes.seat(book, user)
  if seat and turns.must_park(book, user, seat, run.priority, kind) then
    park(book, run.number, run, kind, rank)
    return false
  end
  start(book, run, seat, kind, rank)
  local place = alike.group(started, '')
  started.fields[place] = base.digits(run.number)
  alike.fence(started, place, run.fence + 1)
  run.kind, started.runs[place] = AGAIN, run
  return true
end

-- Read ahead what is going to be started: what comes in the ready order, and the first of those that users who have
-- room keep in line. Of those whose sessions are to hear of it, the sessions too.
local function read_ahead(book, count)
  local fields, numbers = shelves.ready(book.name):coming(count)
  local lone, lone_of, kinds = {}, runs.lone, runs.kinds or {}
  for i = 1, min(#numbers, count) do
    local number = numbers[i]
    local field = lone_of[number]
    if field then
      lone[#lone + 1] = field
    elseif kinds[number] == FRESH then  -- whose session, if it has one, has just let it in
      lone[#lone + 1] = base.digits(number)
    else
      fields[#fields + 1] = base.digits(number)
    end
  end
  local cap = lanes.common_cap(book)
  for user, seat in pairs(lanes.seats(book).kept) do
    local line = seat and seat.line
    if line then
      local room = (cap or lanes.cap(book, user) or #line) - seat.active - (seat.out > 0 and 1 or 0)
      for at = 2, min(#line, 3 * room), 3 do
        local list = line[at + 1] >= LEAST_LONE and lone or fields
        list[#list + 1] = line[at]
      end
    end
  end
  runs.offer(lone)
  runs.offer(fields)
  local named, known, glance = {}, sessions.load({}), runs.glance
  for i = 1, #fields do
    local _, of = glance(fields[i])
    local session = of.session
    if session and not known[session] then
      named[#named + 1] = session
    end
  end
  sessions.load(named)
end

local function claim_from(lane, share, asker, started, moves)
  local book, fields = lanes.get(lane), started.fields
  local goal = #fields + min(share, lanes.room(book))
  if #fields >= goal then
    return moves
  end
  local gates = claiming.opened(lane, asker.tasks)
  if next(gates) == nil and next(shelves.gated('aside', lane)) == nil then
    local before
    repeat  -- page by page
      before = #fields
      alike.start(asker.worker, book, goal - before, asker.free, started)
    until #fields == before or #fields >= goal
    if #fields >= goal or shelves.ready(lane):is_empty() then
      return moves
    end
  end
  read_ahead(book, goal - #fields)
  local order, take, lent = shelves.ready(lane), shelves.taking(lane, asker.tasks, gates), {}
  local start_of, start_as, start_straight = alike.starter(asker.worker, book, asker.free, started)
  local started_so, straight = 0, take == order.take
  while #fields < goal and moves > 0 do
    if straight then
      started_so = started_so + start_straight(order, goal - #fields, lent)
      if #fields >= goal then
        break
      end
    end
    local number, rank = take(order)
    if not number then
      break
    end
    local field = base.digits(number)
    local text, is, of, kind, after = start_of(number, field)
    local seat = text and of.user and lanes.seat(book, of.user)
    if not text then
      moves = moves - (start_run(book, runs.get(number), rank, asker, gates, started) and 0 or 1)
    elseif seat and turns.must_park(book, of.user, seat, of.priority, kind) then
      park(book, number, of, kind, rank)
      moves = moves - 1
    else
      start(book, of, seat, kind, rank)
      lent[#lent + 1] = field
      start_as(number, field, text, is, of, after)
    end
  end
  book.active, book.pending = book.active + started_so, book.pending - started_so
  alike.lend(asker.worker, lane, lent)
  return moves
end

-- Return floor(count * frac(turn * golden ratio)), as core.flow has it in 64 bits: limbs of 16 bits fit into a double.
local GOLDEN = {0x7C15, 0x7F4A, 0x79B9, 0x9E37}

local function first_lane(turn, count)
  if count == 1 then
    return 0
  end
  local limbs, carry = {}, 0
  for i = 1, 4 do
    local sum, rest = carry, turn
    for j = 1, i do
      sum = sum + GOLDEN[i - j + 1] * (rest % 65536)
      rest = math.floor(rest / 65536)
    end
    limbs[i] = sum % 65536
    carry = math.floor(sum / 65536)
  end
  local high = 0
  for i = 1, 4 do
    high = math.floor((limbs[i] * count + high) / 65536)
  end
  return high
end

-- Start up to `room` runs of these lanes (a sorted list), of `tasks` the worker knows (a table of trues, without those
-- paused). What may not start is parked. `spare` is how many the worker may take of lanes that have a limit per worker.
-- Each lane gets an equal share first, beginning with another lane each call; what is left over then goes to whoever
-- has more. Returns what it started, and true if it stopped because it had moved enough aside. What it started is
-- lists, by place: numbers as texts (`fields`), and `runs` that are yet to be told of it, or `handed`, as the worker
-- gets it, of those of which all is done (alike.lua); `groups` are those of `replies.add_grouped`, and `fences` the
-- places from which on a fence holds, each with that fence behind it.
function claiming.claim(worker, names, room, tasks, spare)
  local count = #names
  local first, in_turn = first_lane(worker.call, count), {}
  for i = 1, count do
    in_turn[i] = names[(first + i - 1) % count + 1]
  end
  local guarded, free = circuits.guarded(), {}
  for task in pairs(tasks) do
    if not guarded[task] then
      free[task] = true
    end
  end
  local asker, moves = {worker = worker, tasks = tasks, free = free}, MOST_MOVES
  local started, taken = {fields = {}, fences = {}, handed = {}, groups = {}, runs = {}}, {}
  for i, lane in ipairs(in_turn) do
    local share = math.ceil((room - #started.fields) / (count - i + 1))
    if spare[lane] then
      share = min(share, spare[lane])
    end
    local before = #started.fields
    moves = claim_from(lane, share, asker, started, moves)
    taken[lane] = #started.fields - before
  end
  if count > 1 then
    for _, lane in ipairs(in_turn) do
      local share = room - #started.fields
      if spare[lane] then
        share = min(share, spare[lane] - taken[lane])
      end
      moves = claim_from(lane, share, asker, started, moves)
    end
  end
  return started, moves <= 0
end
