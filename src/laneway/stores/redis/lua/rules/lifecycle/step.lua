-- needs: runtime/base, runtime/replies, state/runs, state/logs, state/lanes, rules/queue/shelves, state/workers
-- needs: rules/leases, rules/queue/claim, rules/lifecycle/control, rules/wakeups, rules/lifecycle/acceptance
-- needs: state/due_jobs
-- A worker's step that is new to the store: the worker calls it, or a submission makes it ahead (fast/claim_ahead.lua).

local step = {}
local NOTHING = {fields = {}, fences = {}, handed = {}, runs = {}}

local function claim_for(worker, room)
  local tasks, spare = workers.tasks(worker.id), {}
  for task in pairs(base.set('paused_tasks')) do
    tasks[task] = nil
  end
  local works = lanes.working()
  for name in pairs(base.set('aside_lanes')) do
    for task in pairs(shelves.gated('aside', name)) do
      works[name] = works[name] or (tasks[task] and lanes.get(name))
    end
  end
  for name in pairs(base.set('broken_lanes')) do
    works[name] = works[name] or (next(claim.opened(name, tasks)) ~= nil and lanes.get(name) or nil)
  end
  local names = base.sorted_keys(works)
  for _, name in ipairs(names) do
    if works[name].worker_limit then
      spare[name] = workers.spare(worker.id, name, works[name].worker_limit)
    end
  end
  if #names == 0 then
    return NOTHING, false
  end
  return claim.claim(worker, names, room, tasks, spare)
end

local function fires_in(now)
  local soonest = due_jobs.soonest()
  return soonest and max(0, soonest - now) or false
end

-- Return the reply to a step; `_reply` in verbs/workers.py reads it. `fields` are numbers as texts, `handed` the runs,
-- packed; `to` is the address that the store is being moved to, else false.
function step.answer(worker, to, fields, handed, refused, due_in, more, now)
  return replies.list({
    pack(fields), replies.list(handed), pack(refused), pack(due_in), pack(more), pack(now),
    pack(leases.requests(worker)), pack(fires_in(now)), pack(to),
  })
end

-- Return what the reply to the worker's newest step was, in case the worker repeats the step: numbers as texts, fences,
-- refused, due_in, more, now, messages.
function step.kept(worker)
  return unpack(worker.reply and unpacked(worker.reply) or {{}, {}, {}, false, false, 0, {}}, 1, 7)
end

-- Make a step (the arguments of verbs/workers/step.lua) and return the reply. The caller then wakes workers and
-- flushes.
function step.take(worker, asked, to)
  -- Due runs first: a run that a result lets join its session comes behind them. Then what is written under leases,
  -- before the results: a run that ends in this very step was overdue, or saved, before it ended.
  local refused = {}
  control.make_due()
  leases.write(worker, asked[4], asked[7], asked[8], refused)
  leases.settle(worker, asked[3], refused)
  local started, more = NOTHING, false
  if asked[5] > 0 then
    started, more = claim_for(worker, asked[5])
  end
  local handed, count, messages = started.handed, #started.fields, {}
  for place, run in pairs(started.runs) do
    messages[started.fields[place]] = run.messages
    runs.set_state(run, 'running')
    run.worker, run.started_at, run.fence = worker.id, NOW, run.fence + 1
    workers.hand(run, worker.id)
    logs.write(run, logs.started(worker.id))
    if run.steered then
      workers.note_request(run)
    end
    handed[place] = runs.handed(run)
  end

  local next_due = wakeups.next_due()
  local due_in = next_due and max(0, next_due - NOW) or false
  local reply = step.answer(worker, to, started.fields, handed, refused, due_in, more, NOW)
  worker.call, worker.short, worker.made_ahead = asked[2], asked[9], false
  worker.reply = pack({started.fields, started.fences, refused, due_in, more, NOW, messages})
  local rests = asked[6] and not more and count < asked[5]
  local lends = rests and asked[10] and count == 0 and #refused == 0
  wakeups.set_idle(worker, rests, next_due, lends and asked[5])
  base.wrote_events = true
  return reply
end
