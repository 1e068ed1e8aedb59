-- needs: leases, acceptance, claiming, waking
-- A worker's step: {incarnation, call, results, emitted, room, park, saved, overdue, short}. Returns {claimed, refused,
-- due_in, more, now, requests, fires_in}.

base.allow_full()
local step = unpacked(ARGV[2])
local worker = workers.alive(step[1])
if not worker then
  return base.refusal('lease_lost')
end

-- A store that has lost its last moment (a power cut, a fail-over) does not know the worker's newest steps: what it was
-- given and what it settled there, it believes otherwise. So this incarnation ends, and what it holds is taken over.
if step[2] > worker.call + 1 then
  worker.left = true
  waking.rest(worker, false, worker.told)
  workers.forget_if_done(worker)
  waking.wake()
  base.flush()
  return base.refusal('lease_lost')
end

local function fires_in(now)
  local soonest = jobs.soonest()
  return soonest and math.max(0, soonest - now) or false
end

local function answer(claimed, refused, due_in, more, now)
  return replies.list({claimed, pack(refused, due_in, more, now, leases.requests(worker), fires_in(now))}, 7)
end

-- The answer to a call that was answered before: without what was cancelled out of the worker's hands meanwhile.
if step[2] <= worker.call then
  local held, reply = {}, worker.reply or {{}, {}, false, false, 0}
  for i = 1, #reply[1], 2 do
    held[#held + 1] = leases.find(worker, reply[1][i], reply[1][i + 1])
  end
  return answer(leases.handed(held), reply[2], reply[3], reply[4], reply[5])
end

local function claim(room)
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
    works[name] = works[name] or (next(claiming.opened(name, tasks)) ~= nil and lanes.get(name) or nil)
  end
  local names = base.sorted_keys(works)
  for _, name in ipairs(names) do
    if works[name].worker_limit then
      spare[name] = workers.spare(worker, name, works[name].worker_limit)
    end
  end
  if #names == 0 then
    return {}, false
  end
  return claiming.claim(names, room, tasks, worker.call, spare)
end

-- First what is due: what a result lets join its session comes behind it. And what goes on before the results: a run
-- that ends in this very step was overdue, or saved, before it ended.
local refused, marks = {}, {}
steering.make_due()
leases.write(worker, step[4], step[7], step[8], refused)
leases.settle(worker, step[3], refused)
local started, more = {}, false
if step[5] > 0 then
  started, more = claim(step[5])
end
local told = {logs.draft('started', 'worker', worker.id)}
for i, run in ipairs(started) do
  runs.set_state(run, 'running')
  run.worker, run.started_at, run.fence = worker.id, NOW, run.fence + 1
  workers.hand(run, worker.id)
  logs.say(run, told)
  if run.steered then
    workers.ask(run)
  end
  marks[2 * i - 1], marks[2 * i] = run.number, run.fence
end

local claimed = leases.handed(started)
local next_due = waking.next_due()
local due_in = next_due and math.max(0, next_due - NOW) or false
local reply = answer(claimed, refused, due_in, more, NOW)
worker.call, worker.short = step[2], step[9]
worker.reply = {marks, refused, due_in, more, NOW}
waking.rest(worker, step[6] and not more and #started < step[5], next_due)
base.said = true
waking.wake(worker)
base.flush()
return reply
