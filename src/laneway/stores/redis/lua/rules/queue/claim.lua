-- needs: runtime/base, state/runs, state/lanes, rules/queue/turns, rules/queue/sessions, rules/queue/circuits
-- needs: rules/queue/shelves, rules/queue/admission, state/workers, fast/plain_runs
-- The claim: which pending runs start. This restates core/queue/claim.py, which explains rules and invariants.
--
-- `labels` are the run itself, or the labels of its record if nothing has parsed it (state/run_records.lua).

local claim = {}

-- Park a run behind its user; it was taken from the ready order.
local function park(book, number, labels, kind, rank)
  local user, seat = labels.user, lanes.seat(book, labels.user)
  turns.leave(book, labels, kind)
  shelves.park(book.name, user, seat, number, without(kind, BACK), rank)
  bring_back(book, user, seat)
end

-- Return the breaker gates of a lane that runs of these tasks are parked behind and that let one start; a table of
-- trues.
function claim.opened(lane, tasks)
  local gates = {}
  for key in pairs(shelves.gated('broken', lane)) do
    if tasks[circuits.task_of(key)] and circuits.lets_start(key) then
      gates[BREAKER .. key] = true
    end
  end
  return gates
end

-- Set the run aside if the worker does not know its task, or if a breaker keeps it from starting; return whether that
-- was done. If the run starts, its breakers have counted it, and those that let no more runs start leave `gates`.
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

-- Count a run of that kind and rank as started, and bring in the runs that waited for it.
local function start(book, labels, kind, rank)
  turns.start(book, labels, kind, rank)
  if labels.user and has(kind, BACK) then
    bring_back(book, labels.user, lanes.seat(book, labels.user))
  end
  if labels.session and not has(kind, AGAIN) then
    local session = sessions.get(labels.session)
    session.unstarted = 0
    if session.held > 0 then
      admit(labels.session, session)
    end
  end
end

-- Start a run that was taken from its shelf, and add it to `started`; or put it where it has to wait. Return whether it
-- was started.
local function start_run(book, number, rank, asker, started)
  local field = base.digits(number)
  local status, labels, kind, text = runs.peek(field)
  local after = asker.free[labels.task] and plain_runs.start_of(asker.worker, status, text)
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
    labels, kind = run, run.kind
  end
  if turns.must_park(book, labels, kind) then
    park(book, number, labels, kind, rank)
    return false
  end
  start(book, labels, kind, rank)
  local place = #started.fields + 1
  started.fields[place] = field
  if run then
    run.kind, started.runs[place], started.fences[place] = AGAIN, run, run.fence + 1
  else
    started.handed[place], started.fences[place] = plain_runs.start(field, text, status, labels, after), after.fence
    started.rewritten[#started.rewritten + 1] = field
  end
  return true
end

-- Prefetch the next runs of the ready order and their sessions.
local function prefetch(order, count)
  local fields, names = {}, {}
  order:add_next(count, fields)
  runs.prefetch(fields)
  for i = 1, #fields do
    local _, labels = runs.peek(fields[i])
    names[#names + 1] = labels and labels.session or nil
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
  asker.gates, started.rewritten = claim.opened(lane, asker.tasks), {}  -- rewritten: fields of this lane
  local take = shelves.taking(lane, asker.tasks, asker.gates)
  prefetch(order, goal - #fields)
  while #fields < goal and moves > 0 do
    local number, rank = take(order)
    if not number then
      break
    end
    moves = moves - (start_run(book, number, rank, asker, started) and 0 or 1)
  end
  workers.give_started(asker.worker, lane, started.rewritten)
  return moves
end

-- Return floor(count * frac(turn * golden ratio)), as core/queue/claim.py computes it in 64 bits. Numbers in Lua are
-- doubles, so it is computed in limbs of 16 bits.
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

-- Start up to `room` runs of these lanes (a sorted list) and of the tasks that the worker knows (a table of trues,
-- without the paused ones). Runs that may not start are parked. `spare` has, for lanes with a limit per worker, how
-- many more the worker may take. Each lane gets an equal share first, beginning with another lane at each call; room
-- that is left goes to lanes that have more runs.
--
-- Return what was started, and true if the call stopped because it had moved enough runs. What was started are lists by
-- place: `fields` (numbers as texts), `fences`, and either `runs`, whose records are still to be changed, or `handed`,
-- the form for the worker, of runs that fast/plain_runs.lua has done with.
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
