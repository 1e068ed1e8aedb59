-- needs: runtime/base, state/runs, state/logs, state/memos, rules/inboxes, rules/jobs/after
-- What else is written when a run ends: its follow-ups, word to the run that waits for it, and to its job; see
-- core/lifecycle/endings.py. Who accepts and steers runs is told once it is there (`accept`, `cancel`, `let_go_on`).
--
-- Hash `follows`: number -> {then, on_failure}, packed: submissions as acceptance.lua reads them, under the ids that
-- they will have.

local endings = {accept = nil, cancel = nil, let_go_on = nil}

local function leave(submissions)
  for _, wire in ipairs(submissions or {}) do
    endings.accept(wire)
  end
end

local function failure_message(run)
  local text = run.failed and base.text('failures', base.digits(run.number))
  return text and cjson.decode(text).message or nil
end

-- Leave a memo and an event with the run that called this one, and let it go on if it waits for it.
local function tell_parent(run)
  local parent = runs.named(run.ties.parent)
  if not parent or TERMINAL[parent.state] then
    return
  end
  local value, ending = false, false
  if run.state == 'succeeded' then
    value = runs.result(run)
  else
    ending = {run.state, run.reason or false, failure_message(run) or false}
  end
  local ties = run.ties
  memos.keep(parent, {'call', ties.call, value, ties.about, 0, parent.attempt, run.id, ties.tries, ending})
  local told = logs.draft('returned', 'name', ties.call, 'run_id', run.id, 'state', run.state)
  if parent.state == 'waiting' then
    for _, called in ipairs(parent.wait.calls) do
      if called[2] == run.id then
        endings.let_go_on(parent, told)
        return
      end
    end
  end
  logs.say(parent, {told})
end

-- Hear that the run has ended, and still has its session's place. `held` is what its attempt held back.
function endings.close(run, held)
  if run.messages then
    inboxes.close(run)
  end
  local follows = run.ties and run.ties.follows and unpacked(base.text('follows', base.digits(run.number)))
  if run.state == 'succeeded' then
    leave(held)
    leave(follows and follows[1])
  elseif run.state == 'failed' then
    leave(follows and follows[2])
  end
  if run.wait then
    for _, id in ipairs(memos.called(run.wait)) do
      local child = runs.named(id)
      if child and not TERMINAL[child.state] then
        endings.cancel(child)
      end
    end
  end
  if run.ties and run.ties.call then
    tell_parent(run)
  end
  if run.ties and run.ties.job then
    job_after.hear(run, failure_message(run))
  end
end
