-- needs: leases, acceptance, claiming, waking, moving
-- A worker's step: {incarnation, call, results, emitted, room, park, saved, overdue, short}. Returns {numbers of the
-- claimed, claimed, refused, due_in, more, now, requests, fires_in, moved}.

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
  waking.rest(worker, false)
  workers.forget_if_done(worker)
  waking.wake()
  base.flush()
  return base.refusal('lease_lost')
end

local phase, to = moving.leaving()
to = to or false

local function fires_in(now)
  local soonest = jobs.soonest()
  return soonest and math.max(0, soonest - now) or false
end

local function answer(numbers, claimed, refused, due_in, more, now)
  return replies.list({
    pack(numbers), replies.list(claimed), pack(refused, due_in, more, now, leases.requests(worker), fires_in(now), to),
  }, 9)
end

-- The answer to a call that was answered before: without what was cancelled out of the worker's hands meanwhile, and
-- with as many messages as had come then; what has come since is requested.
if step[2] <= worker.call then
  local numbers, held, reply = {}, {}, worker.reply or {{}, {}, {}, false, false, 0}
  local messages = reply[7] or {}
  for i, number in ipairs(reply[1]) do
    local run = leases.find(worker, number, reply[2][i])
    if run then
      run.messages = messages[i]
      numbers[#numbers + 1], held[#held + 1] = number, runs.handed(run)
    end
  end
  return answer(numbers, held, unpack(reply, 3, 6))
end

-- Of a store that nobody may change any more, nothing that this step says is written.
if phase == 'frozen' then
  local refused, numbers, fences = {}, step[3][1], step[3][2]
  for i = 1, #numbers do
    refused[i] = {tonumber(numbers[i]), fences[i]}
  end
  for _, said in ipairs({step[4], step[7], step[8]}) do
    for _, one in ipairs(said) do
      refused[#refused + 1] = {one[1], one[2]}
    end
  end
  return answer({}, {}, refused, false, false, NOW)
elseif phase then
  step[5], step[6] = 0, false
end

local NOTHING = {numbers = {}, fences = {}, handed = {}, runs = {}}

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
      spare[name] = workers.spare(worker.id, name, works[name].worker_limit)
    end
  end
  if #names == 0 then
    return NOTHING, false
  end
  return claiming.claim(worker, names, room, tasks, spare)
end

-- First what is due: what a result lets join its session comes behind it. And what goes on before the results: a run
-- that ends in this very step was overdue, or saved, before it ended.
local refused = {}
steering.make_due()
leases.write(worker, step[4], step[7], step[8], refused)
leases.settle(worker, step[3], refused)
local started, more = NOTHING, false
if step[5] > 0 then
  started, more = claim(step[5])
end
local numbers, handed, messages = started.numbers, started.handed, {}
for place, run in pairs(started.runs) do
  messages[place] = run.messages
  runs.set_state(run, 'running')
  run.worker, run.started_at, run.fence = worker.id, NOW, run.fence + 1
  workers.hand(run, worker.id)
  logs.say(run, logs.started(worker.id))
  if run.steered then
    workers.ask(run)
  end
  handed[place] = runs.handed(run)
end

local next_due = waking.next_due()
local due_in = next_due and math.max(0, next_due - NOW) or false
local reply = answer(numbers, handed, refused, due_in, more, NOW)
worker.call, worker.short = step[2], step[9]
worker.reply = {numbers, started.fences, refused, due_in, more, NOW, messages}
waking.rest(worker, step[6] and not more and #numbers < step[5], next_due)
base.said = true
waking.wake()
base.flush()
return reply
