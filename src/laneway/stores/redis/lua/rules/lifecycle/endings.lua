-- needs: runtime/base, state/runs, state/logs, state/memos, rules/inboxes, rules/jobs/after
-- What else is written when a run ends: its follow-ups, its outcome in the run that called it, and in its job; see
-- core/lifecycle/endings.py. acceptance.lua and control.lua, which need this file, set the functions that it calls.
--
-- Hash `follows`: number -> {then, on_failure}, packed: submissions as acceptance.lua reads them, with their ids.

local endings = {accept = nil, cancel = nil, let_go_on = nil}

local function submit(submissions)
  for _, wire in ipairs(submissions or {}) do
    endings.accept(wire)
  end
end

local function failure_message(run)
  local text = run.failed and base.text('failures', base.digits(run.number))
  return text and cjson.decode(text).message or nil
end

-- Write a memo and an event to the run that called this one, and let it go on if it waits for this one.
local function return_to_parent(run)
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
  local draft = logs.draft('returned', 'name', ties.call, 'run_id', run.id, 'state', run.state)
  if parent.state == 'waiting' then
    for _, called in ipairs(parent.wait.calls) do
      if called[2] == run.id then
        endings.let_go_on(parent, draft)
        return
      end
    end
  end
  logs.write(parent, {draft})
end

-- Write what follows from the end of a run, which still has its session place. `held` are submissions that its attempt
-- held back until it succeeds.
function endings.close(run, held)
  if run.messages then
    inboxes.close(run)
  end
  local follows = run.ties and run.ties.follows and unpacked(base.text('follows', base.digits(run.number)))
  if run.state == 'succeeded' then
    submit(held)
    submit(follows and follows[1])
  elseif run.state == 'failed' then
    submit(follows and follows[2])
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
    return_to_parent(run)
  end
  if run.ties and run.ties.job then
    job_after.ended(run, failure_message(run))
  end
end
