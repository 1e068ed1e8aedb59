-- needs: rules/leases, rules/lifecycle/step, fast/claim_ahead, rules/wakeups, state/move_part
-- Make a worker's step: {incarnation, call, results, emitted, room, park, saved, overdue, short, lends}. Returns
-- {numbers as texts, claimed, refused, due_in, more, now, requests, fires_in, moved}.

base.allow_full()
local asked = unpacked(ARGV[2])
local worker = workers.alive(asked[1])
if not worker then
  return base.refusal('lease_lost')
end

local phase, to = move_part.leaving()
to = to or false

-- A store that has lost its last moment (a power cut, a fail-over) does not know the worker's newest steps, nor what
-- they claimed and settled. So this incarnation ends, and its leases are taken over. A frozen store misses steps as
-- well.
if asked[2] > worker.call + 1 and phase ~= 'frozen' then
  worker.left = true
  wakeups.set_idle(worker, false)
  workers.delete_if_done(worker)
  wakeups.wake()
  base.flush()
  return base.refusal('lease_lost')
end

-- A repeated call gets the same reply, but without runs that were cancelled and abandoned since, and with as many
-- messages as each run had then; messages since are among the requests. A step that was made ahead came after one that
-- had brought nothing.
if asked[2] <= worker.call then
  local fields, fences, refused, due_in, more, now, messages = step.kept(worker)
  if worker.made_ahead and asked[2] < worker.call then
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

-- In a frozen store nothing of this step is written.
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
