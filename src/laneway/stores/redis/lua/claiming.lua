-- needs: base, runs, lanes, sessions, circuits, shelves, flow, alike
-- Which pending run may start: the claim. This restates core/flow.py, where the rules and invariants are explained.

local claiming = {}

local function park(book, run)
  run.kind = without(run.kind, BACK)
  local seat = lanes.seat(book, run.user)
  seat.parked = seat.parked + 1
  shelves.put_users(run)
  bring_back(book, run.user, seat)
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
local function set_aside(book, run, tasks, gates)
  local key
  if tasks[run.task] then
    if lanes.must_park(book, run, run.kind) then
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
  lanes.set_aside(book, run)
  if key then
    run.kind = with(run.kind, key == run.task and BROKEN or BROKEN_USER)
  end
  shelves.put_parked(run, shelves.gate_of(run))
  if back and run.user then
    bring_back(book, run.user, lanes.seat(book, run.user))
  end
  return true
end

-- Let follow what waited for the start of this run, which came as `kind`.
local function go_on_after(book, run, kind)
  if has(kind, BACK) and run.user then
    bring_back(book, run.user, lanes.seat(book, run.user))
  end
  if run.session and not has(kind, AGAIN) then
    local session = sessions.get(run.session)
    session.unstarted = 0
    if session.held > 0 and #session.admitted < sessions.limit(session) then
      admit(run.session, session)
    end
  end
end

local function claim_from(lane, share, asker, started, moves)
  local book, numbers = lanes.get(lane), started.numbers
  local goal = #numbers + math.min(share, lanes.room(book))
  if #numbers >= goal then
    return moves
  end
  local gates = claiming.opened(lane, asker.tasks)
  if next(gates) == nil and next(shelves.gated('aside', lane)) == nil then
    local before
    repeat  -- page by page
      before = #numbers
      alike.start(asker.worker, book, goal - before, asker.free, started)
    until #numbers == before or #numbers >= goal
    if #numbers >= goal or shelves.ready(lane):is_empty() then
      return moves
    end
  end
  runs.load(shelves.ready(lane):coming(goal - #numbers))  -- one read for all
  local take, lent = shelves.taking(lane, asker.tasks, gates), {}
  while #numbers < goal and moves > 0 do
    local run = take()
    if not run then
      break
    end
    if has(run.kind, ASIDE) then
      lanes.set_back(book, run)
    end
    local kind = run.kind
    if not asker.free[run.task] and set_aside(book, run, asker.tasks, gates) then
      moves = moves - 1
    elseif run.user and lanes.must_park(book, run, run.kind) then
      lanes.leave(book, run)
      park(book, run)
      moves = moves - 1
    else
      lanes.start(book, run, kind, run.rank, 1)
      if run.session or has(kind, BACK) then
        go_on_after(book, run, kind)
      end
      local field = alike.start_one(asker.worker, run, started)
      if field then
        lent[#lent + 1] = field
      else
        local place = #numbers + 1
        numbers[place], started.fences[place], started.lanes[place] = run.number, run.fence + 1, lane
        run.kind, started.runs[place] = AGAIN, run
      end
    end
  end
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
-- lists, by place: numbers, fences, lanes, and `runs` that are yet to be told of it, or `handed`, as the worker gets it,
-- of those of which all is done (alike.lua).
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
  local started = {numbers = {}, fences = {}, lanes = {}, handed = {}, runs = {}}
  for i, lane in ipairs(in_turn) do
    local share = math.ceil((room - #started.numbers) / (count - i + 1))
    if spare[lane] then
      share = math.min(share, spare[lane])
    end
    moves = claim_from(lane, share, asker, started, moves)
  end
  if count > 1 then
    for _, lane in ipairs(in_turn) do
      local share = room - #started.numbers
      if spare[lane] then
        local taken = 0
        for _, name in ipairs(started.lanes) do
          taken = taken + (name == lane and 1 or 0)
        end
        share = math.min(share, spare[lane] - taken)
      end
      moves = claim_from(lane, share, asker, started, moves)
    end
  end
  return started, moves <= 0
end
