-- needs: runtime/base, runtime/replies, state/runs, state/logs, state/lanes, rules/queue/sessions, rules/queue/circuits
-- needs: rules/queue/shelves, rules/queue/admission, state/memos, rules/lifecycle/endings, state/workers
-- needs: rules/lifecycle/control, fast/plain_runs
-- Leases: what a worker writes under one, and how an attempt is settled. This restates stores/memory/rules/leases.py,
-- and `overruled` of core/lifecycle/outcome.py. A lease that the worker does not hold (any more) is refused: {number,
-- fence}.

local leases = {}

local STATES = {
  succeed = 'succeeded', retry = 'pending', fail = 'failed', release = 'pending', snooze = 'pending', lapse = 'pending',
  pause = 'paused', ask = 'waiting', call = 'waiting', cancel = 'cancelled',
}
local SUCCESS = {{'"result"', 'null'}, {'"done"', '{"state":"succeeded"}'}}
local RELEASED, STOPPED, CANCELLED = {'"released"', '{}'}, {'"stopped"', '{}'}, {'"done"', '{"state":"cancelled"}'}

-- Return the run if the worker holds it under this fence.
function leases.find(worker, number, fence)
  local run = runs.get(number)
  return run and run.holder == worker.id and run.fence == fence and run or nil
end

-- Return the first `count` drafts, followed by others.
local function first_and(drafts, count, ...)
  local found = {}
  for i = 1, count do
    found[i] = drafts[i]
  end
  for i = 1, select('#', ...) do
    found[#found + 1] = (select(i, ...))
  end
  return found
end

-- Return what is written instead of a settlement if something was requested of the run before it was settled.
local function overrule(run, settlement)
  local own, drafts = settlement.own, settlement.drafts
  if run.request == 'cancel' and settlement.move ~= 'cancel' then
    local seen = true
    for i = 1, own do
      seen = seen and drafts[i][1] ~= '"lapsed"'  -- a handler of a dead worker has stopped unseen
    end
    drafts = seen and first_and(drafts, own, STOPPED, CANCELLED) or first_and(drafts, own, CANCELLED)
    settlement = {
      move = 'cancel', attempt = run.attempt, crashes = settlement.crashes, drafts = drafts, own = own, delay = 0,
    }
  elseif run.request == 'pause' and STATES[settlement.move] == 'pending' then
    settlement.move, settlement.drafts = 'pause', first_and(drafts, #drafts, PAUSED)
  elseif not run.request and settlement.move == 'pause' then
    settlement.move, settlement.drafts = 'release', first_and(drafts, own, RELEASED)
  end
  if STATES[settlement.move] ~= 'waiting' then  -- else the request is followed when it goes on
    run.request = nil
  end
  return settlement
end

local function come_back(run, due_at)
  run.due_at = due_at
  local book = lanes.get(run.lane)
  book.pending = book.pending + 1
  if due_at > NOW then
    shelves.put_due(run)
    admission.step_out(run)
  else
    admission.rejoin(run)
  end
end

local function wait(run, left)
  run.wait = memos.stamped(run, left.wait)
  run.due_at = NOW
  for _, wire in ipairs(left.calls or {}) do
    endings.accept(wire)
  end
  if not memos.is_over(run) then
    admission.wait(run, #run.wait.questions > 0)
    shelves.put_deadline(run)
  elseif not run.request then
    runs.set_state(run, 'pending')
    come_back(run, NOW)
  else
    runs.set_state(run, 'paused')
    run.request = nil
    logs.write(run, {PAUSED})
  end
end

local NOTHING = {}

-- Write one settlement: a result (JSON text or false) and, unless it is a plain success, {move, attempt, crashes,
-- more}. `more` has the rare fields: read, throttled, delay, failure (JSON), reason, drafts, own, left, charge.
local function settle(run, value, settlement)
  local move, attempt, crashes, given = 'succeed', run.attempt, 0, NOTHING
  if settlement then
    move, attempt, crashes, given = settlement[1], settlement[2], settlement[3], settlement[4] or NOTHING
  end
  local more = given
  local drafts = more.drafts or SUCCESS
  if run.request or move == 'pause' then
    local instead = overrule(run, {
      move = move, attempt = attempt, crashes = crashes, result = value, delay = more.delay, failure = more.failure,
      reason = more.reason, drafts = drafts, own = more.own or 0, left = more.left, charge = more.charge,
    })
    move, attempt, crashes, value = instead.move, instead.attempt, instead.crashes, instead.result
    drafts, more = instead.drafts, instead
  end
  workers.hand(run, nil)
  logs.write(run, drafts)
  run.worker, run.lapsed, run.timed_out = false, nil, nil
  run.attempt, run.crashes, run.reason = attempt, crashes, more.reason
  if value then
    runs.set_result(run, value)
  end
  if more.failure or run.failed then
    run.failed = more.failure and true or nil
    base.set_text('failures', base.digits(run.number), more.failure)
  end
  admission.free(run)
  if more.charge or circuits.is_guarded(run.task) then
    if circuits.ended(run, more.charge, move == 'succeed') then
      base.put_in('disabled', run.task, true)
    end
  end
  if run.session then
    run.read = run.messages and min(given.read or 0, run.steered or 0) or nil
    if given.throttled ~= nil then
      admission.throttle(run.session, given.throttled)
    end
  end
  local state = STATES[move]
  runs.set_state(run, state)
  if state == 'pending' then
    come_back(run, NOW + (more.delay or 0))
  elseif state == 'paused' then
    run.due_at = NOW + (more.delay or 0)
  elseif state == 'waiting' then
    wait(run, more.left)
  else
    if more.left or run.messages or run.ties or run.wait then
      endings.close(run, more.left and more.left.follow_ups)
    end
    admission.ended(run, run.number)
  end
end

-- Write the settlements whose leases the worker holds, and add the others to `refused`. They come as lists: numbers as
-- texts, fences, results, and by place what else is to be written.
function leases.settle(worker, results, refused)
  local fields, fences, values, more = unpack(results, 1, 4)
  if #fields == 0 then
    return
  end
  plain_runs.succeed(worker, fields, fences, values, more, SUCCESS, function(at)
    local number = tonumber(fields[at])
    local run = leases.find(worker, number, fences[at])
    if run then
      settle(run, values[at], more[at])
    else
      refused[#refused + 1] = {number, fences[at]}
    end
  end)
end

local function save(run, saved)
  if saved[3] then
    run.saved, run.crashes = true, 0
    base.set_text('saved', base.digits(run.number), saved[3])
  end
  if saved[4] then
    run.prepared = true
    base.set_text('prepared', base.digits(run.number), saved[4])
  end
  if saved[5] then
    run.crashes = 0
    memos.keep(run, saved[5])
  end
end

-- Write what running attempts have sent: events {number, fence, drafts}, saves {number, fence, state, prepared, memo},
-- and overdue runs {number, fence}.
function leases.write(worker, emitted, saved, overdue, refused)
  for _, one in ipairs(emitted) do
    local run = leases.find(worker, one[1], one[2])
    if run then
      logs.write(run, one[3])
    else
      refused[#refused + 1] = {one[1], one[2]}
    end
  end
  for _, one in ipairs(saved) do
    local run = leases.find(worker, one[1], one[2])
    if run then
      save(run, one)
    else
      refused[#refused + 1] = {one[1], one[2]}
    end
  end
  for _, one in ipairs(overdue) do
    local run = leases.find(worker, one[1], one[2])
    if run then
      run.timed_out = true
    end
  end
end

-- Return the open requests for runs that the worker executes: {number, fence, request, messages}.
function leases.requests(worker)
  local numbers, found = {}, {}
  for number in pairs(base.set('asked:' .. worker.id)) do
    numbers[#numbers + 1] = tonumber(number)
  end
  table.sort(numbers)
  for _, number in ipairs(numbers) do
    local run = runs.get(number)
    if not run.lapsed then
      if run.request then
        found[#found + 1] = {number, run.fence, run.request, 0}
      end
      if (run.steered or 0) > 0 then
        found[#found + 1] = {number, run.fence, 'steer', run.steered}
      end
    end
  end
  return found
end

-- Return runs as the worker gets them that settles them for a dead one: their numbers, and the runs; both packed.
function leases.handed(list)
  local numbers, found = {}, {}
  for i = 1, #list do
    numbers[i], found[i] = list[i].number, runs.handed(list[i])
  end
  return pack(numbers), replies.list(found)
end
