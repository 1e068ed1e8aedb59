-- needs: rules/leases, rules/lifecycle/step, fast/claim_ahead, rules/wakeups, state/move_part
-- A worker's step: {incarnation, call, results, emitted, room, park, saved, overdue, short, lends}. Returns {numbers of
-- the claimed as texts, claimed, refused, due_in, more, now, requests, fires_in, moved}.

base.allow_full()
local asked = unpacked(ARGV[2])
local worker = workers.alive(asked[1])
if not worker then
  return base.refusal('lease_lost')
end

local phase, to = move_part.leaving()
to = to or false

-- A store that has lost its last moment (a power cut, a fail-over) does not know the worker's newest steps: what it was
-- given and what it settled there, it believes otherwise. So this incarnation ends, and what it holds is taken over.
-- One that is frozen knows none of the steps since.
if asked[2] > worker.call + 1 and phase ~= 'frozen' then
  worker.left = true
  wakeups.rest(worker, false)
  workers.forget_if_done(worker)
  wakeups.wake()
  base.flush()
  return base.refusal('lease_lost')
end

-- The answer to a call that was answered before: without what was cancelled out of the worker's hands meanwhile, and
-- with as many messages as had come then; what has come since is requested. A step that was lent came after one that
-- had brought nothing.
if asked[2] <= worker.call then
  local fields, fences, refused, due_in, more, now, messages = step.kept(worker)
  if worker.lent and asked[2] < worker.call then
    return step.answer(worker, to, {}, {}, {}, due_in, false, now)
  end
  local kept, held = {}, {}
  for i, field in ipairs(fields) do
    local run = leases.find(worker, tonumber(field), fences[i])
    if run then
      run.messages = messages[field]
      kept[#kept + 1], held[#held + 1] = field, runs.handed(run)
    end
  end
  return step.answer(worker, to, kept, held, refused, due_in, more, now)
end

-- Of a store that nobody may change any more, nothing that this step says is written.
if phase == 'frozen' then
  local refused, numbers, fences = {}, asked[3][1], asked[3][2]
  for i = 1, #numbers do
    refused[i] = {tonumber(numbers[i]), fences[i]}
  end
  for _, said in ipairs({asked[4], asked[7], asked[8]}) do
    for _, one in ipairs(said) do
      refused[#refused + 1] = {one[1], one[2]}
    end
  end
  return step.answer(worker, to, {}, {}, refused, false, false, NOW)
elseif phase then
  asked[5], asked[6] = 0, false
end

local reply = step.take(worker, asked, to)
wakeups.wake()
base.flush()
return reply
