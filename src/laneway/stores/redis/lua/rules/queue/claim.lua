-- needs: runtime/base, state/runs, state/lanes, rules/queue/turns, rules/queue/sessions, rules/queue/circuits
-- needs: rules/queue/shelves, rules/queue/admission, state/workers, fast/plain_runs
-- Which pending run may start: the claim. This restates core/queue/claim.py, where the rules and invariants are explained.

local claim = {}

-- Park a run behind its user that was taken from the ready order; `of` tells whose it is.
local function park(book, number, of, kind, rank)
  local user, seat = of.user, lanes.seat(book, of.user)
  turns.leave(book, of, kind)
  shelves.park(book.name, user, seat, number, without(kind, BACK), rank)
  bring_back(book, user, seat)
end

-- Return the gates of breakers in a lane behind which runs wait that may start now; a table of trues.
function claim.opened(lane, tasks)
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
    if turns.must_park(book, run, run.kind) then
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
local function start(book, of, kind, rank)
  turns.start(book, of, kind, rank)
  if of.user and has(kind, BACK) then
    bring_back(book, of.user, lanes.seat(book, of.user))
  end
  if of.session and not has(kind, AGAIN) then
    local session = sessions.get(of.session)
    session.unstarted = 0
    if session.held > 0 then
      admit(of.session, session)
    end
  end
end

-- Start a run that was taken from its shelf, or put it where it has to wait; tell which. Adds it to what was `started`.
local function start_run(book, number, rank, asker, started)
  local field = base.digits(number)
  local is, of, kind, text = runs.glance(field)
  local after = asker.free[of.task] and plain_runs.start_of(asker.worker, is, text)
  local run
  if not after then
    run = runs.get(number)
    run.shelf = false
    if has(run.kind, ASIDE) then
      turns.set_back(book, run)
    end
    if not asker.free[run.task] and set_aside(book, run, rank, asker.tasks, asker.gates) then
      return false
    end
    of, kind = run, run.kind
  end
  if turns.must_park(book, of, kind) then
    park(book, number, of, kind, rank)
    return false
  end
  start(book, of, kind, rank)
  local place = #started.fields + 1
  started.fields[place] = field
  if run then
    run.kind, started.runs[place], started.fences[place] = AGAIN, run, run.fence + 1
  else
    started.handed[place], started.fences[place] = plain_runs.start(field, text, is, of, after), after.fence
    started.lent[#started.lent + 1] = field
  end
  return true
end

-- Read at once what comes next in the ready order, and the sessions that are to hear of these starts.
local function read_ahead(order, count)
  local fields, names = {}, {}
  order:coming(count, fields)
  runs.offer(fields)
  for i = 1, #fields do
    local _, of = runs.glance(fields[i])
    names[#names + 1] = of and of.session or nil
  end
  sessions.load(names)
end

local function claim_from(lane, share, asker, started, moves)
  local book, fields = lanes.get(lane), started.fields
  local goal = #fields + min(share, lanes.room(book))
  if #fields >= goal then
    return moves
  end
  local order = shelves.ready(lane)
  asker.gates, started.lent = claim.opened(lane, asker.tasks), {}
  local take = shelves.taking(lane, asker.tasks, asker.gates)
  read_ahead(order, goal - #fields)
  while #fields < goal and moves > 0 do
    local number, rank = take(order)
    if not number then
      break
    end
    moves = moves - (start_run(book, number, rank, asker, started) and 0 or 1)
  end
  workers.lend(asker.worker, lane, started.lent)
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
-- lists, by place: numbers as texts (`fields`), `fences`, and either `runs` that are yet to be told of it, or `handed`,
-- as the worker gets it, of those of which all is done (fast/plain_runs.lua).
function claim.claim(worker, names, room, tasks, spare)
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
  local started, taken = {fields = {}, fences = {}, handed = {}, runs = {}}, {}
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
