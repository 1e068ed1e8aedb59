-- needs: runtime/base, state/runs, state/logs, state/lanes, rules/queue/sessions, rules/queue/circuits
-- needs: rules/queue/shelves, rules/queue/admission, state/memos, rules/inboxes, rules/lifecycle/endings, state/workers
-- needs: rules/wakeups
-- gives: control, PAUSED
-- What a cancel, a pause, a resume, a drop and an answer do to a run. This restates core/lifecycle/control.py, and
-- stores/memory/rules/control.py, which applies its decisions.
--
-- A change is {state, drafts, request, reason}.

local control = {call = nil}  -- the id of the current call, noted in each run that it changes
local abandons = false  -- the current call abandons a run, so it abandons the runs that this one has called

base.at_begin(function()
  control.call, abandons = nil, false
end)

local CANCEL_REQUESTED = {'"cancel_requested"', '{}'}
local PAUSED, RESUMED = {'"paused"', '{}'}, {'"resumed"', '{}'}

-- The runs of a session -------------------------------------------------------------------------------------------

-- Return the runs that have joined and were never started, paused ones included, in order.
function control.queued(session)
  local book, found = sessions.find(session), {}
  if book then
    if book.unstarted > 0 then
      found[1] = runs.get(book.unstarted)
    end
    for _, run in ipairs(book.held > 0 and shelves.all_held(session) or {}) do
      if run.fence == 0 then
        found[#found + 1] = run
      end
    end
  end
  return found
end

-- Return the runs that were started and have not ended, in the order of acceptance.
function control.active(session)
  local book = sessions.find(session)
  local numbers = book and sessions.active(book) or {}
  table.sort(numbers)
  return runs.all_of(numbers)
end

-- Return the runs that were never started and have not joined yet: due later, or paused before they were due.
function control.future(session)
  return runs.all_of(cached_zset.at('later:' .. session):all())
end

-- Applying a change -----------------------------------------------------------------------------------------------

-- Wake the worker that executes the run, if there is one: the run has changed.
function control.notify_worker(run)
  workers.note_request(run)
  if run.worker then
    wakeups.send(run.worker, '')
  end
end

local function take_out(run, before)
  local shelf = run.shelf
  if before == 'pending' then
    shelves.remove(run)
    admission.withdraw(run, shelf)
  elseif before == 'paused' then
    if shelf == 'held' then
      shelves.remove(run)
      admission.unhold(run)
    else
      control.forget_later(run)
    end
  end
end

-- Note that a run which was paused before it was due has no more to join its session.
function control.forget_later(run)
  if run.session and run.fence == 0 and not admission.is_admitted(run) then
    shelves.note_later(run, false)
  end
end

local function put_back(run)
  local book = lanes.get(run.lane)
  book.pending = book.pending + 1
  if run.shelf == 'held' then
    return  -- it stayed held
  end
  control.forget_later(run)
  if run.due_at > NOW and not admission.is_admitted(run) then
    shelves.put_due(run)
  else
    admission.take_up(run, run.arrival)
  end
end

-- Apply a change to a run. A run that ends while it is running has lost its lease already.
function control.apply(run, change)
  local before = run.state
  if before == 'waiting' and change.state ~= 'waiting' then
    shelves.clear_deadline(run)
  end
  runs.set_state(run, change.state)
  run.request = change.request
  logs.write(run, change.drafts)
  if TERMINAL[change.state] then
    run.reason = change.reason
    take_out(run, before)
    if before == 'running' then
      admission.free(run)
      circuits.ended(run, nil)
    end
    endings.close(run)
    admission.ended(run, run.number)
    run.worker, run.lapsed = false, nil
  elseif before == 'waiting' then
    if change.state ~= 'waiting' then  -- else only a request is withdrawn
      admission.stop_asking(run)
      run.due_at = NOW
    end
    if change.state == 'pending' then
      put_back(run)
    end
  elseif change.state == 'paused' then
    local shelf = run.shelf
    if shelf ~= 'held' then
      shelves.remove(run)
      if shelf == 'due' then
        shelves.note_later(run, true)
      end
    end
    admission.set_down(run, shelf)
  elseif change.state == 'pending' then
    put_back(run)
  end
  run.call = control.call
  control.notify_worker(run)
end

-- Call `change` for runs that the current call is not about, so that it is not noted in them.
function control.beside(change, ...)
  local call_id = control.call
  control.call = nil
  change(...)
  control.call = call_id
end

-- Return the change of a waiting run that may go on: pending, or paused if that was requested.
local function going_on(run, draft)
  if run.request == 'pause' then
    return {state = 'paused', drafts = {draft, PAUSED}}
  end
  return {state = 'pending', drafts = {draft}}
end

-- The changes -----------------------------------------------------------------------------------------------------

-- Cancel a run that has not ended; return whether that changed it. `clears` drops what is unread in its inbox;
-- `abandon` ends the run without waiting for its handler; `why` is the reason to note.
function control.cancel(run, clears, abandon, why)
  local running = run.state == 'running'
  local lapsed = running and workers.has_lapsed(run)
  local asked = run.request == 'cancel'
  run.cleared = run.cleared or clears or nil
  local change
  if running and not lapsed and not abandon then
    if asked then
      return false
    end
    change = {state = 'running', drafts = {CANCEL_REQUESTED}, request = 'cancel'}
  else
    local drafts = asked and {} or {CANCEL_REQUESTED}
    drafts[#drafts + 1] = logs.done('cancelled')
    change = {state = 'cancelled', drafts = drafts, reason = running and abandon and 'abandoned' or why}
  end
  if run.holder and change.state ~= 'running' then
    local holder = workers.find(run.holder)
    workers.hand(run, nil)
    if holder then
      workers.delete_if_done(holder)
    end
  end
  local before = abandons
  abandons = abandon or false
  control.apply(run, change)
  abandons = before
  return true
end

-- Drop a run that was never started.
function control.drop(run, why)
  base.count('counts:' .. run.lane, 'dropped ' .. why, 1)
  inboxes.forget_keys(run)
  local drafts = {logs.draft('dropped', 'reason', why), logs.done('dropped')}
  control.apply(run, {state = 'dropped', drafts = drafts, reason = why})
end

-- Pause a run that has not ended and is not paused.
function control.pause(run)
  if run.state == 'running' then
    control.apply(run, {state = 'running', drafts = {{'"pause_requested"', '{}'}}, request = 'pause'})
  else
    control.apply(run, {state = 'paused', drafts = {PAUSED}})
  end
end

-- Resume a run that is paused, or withdraw the request to pause it.
function control.resume(run)
  local state = run.request == 'pause' and run.state or 'pending'
  control.apply(run, {state = state, drafts = {RESUMED}})
end

-- End a run that waits for an answer: the message with this id came instead.
function control.supersede(run, by)
  local drafts = {logs.draft('superseded', 'by', by), logs.done('cancelled')}
  control.apply(run, {state = 'cancelled', drafts = drafts, reason = 'superseded'})
end

-- Answer a question of a waiting run, with JSON text.
function control.answer(run, question, answer)
  memos.keep(run, {'answer', question[1], answer, question[4], 0, run.attempt})
  control.apply(run, going_on(run, logs.draft('answered', 'name', question[1], 'answer', {answer})))
end

-- End a run whose question was not answered in time.
function control.expire(run)
  local late
  for _, question in ipairs(run.wait.questions) do
    if not late and question[5] and question[5] <= NOW then
      late = question[1]
    end
  end
  local drafts = {logs.draft('unanswered', 'name', late), logs.done('cancelled')}
  control.beside(control.apply, run, {state = 'cancelled', drafts = drafts, reason = 'unanswered'})
end

endings.cancel = function(run)
  control.beside(control.cancel, run, false, abandons, 'parent_ended')
end

endings.let_go_on = function(parent, draft)
  control.beside(control.apply, parent, going_on(parent, draft))
end

-- Let due runs join their sessions and lanes, and end runs whose questions have expired.
function control.make_due()
  if base.is_absent('due') then
    return  -- nor are there deadlines
  end
  local deadlines = cached_zset.at('deadlines')
  while true do
    local till = deadlines:first()
    if not till or till > NOW then
      break
    end
    control.expire(runs.get(deadlines:take()))
  end
  for _ = 1, MOST_MOVES do
    local run = shelves.take_due()
    if not run then
      return
    end
    if run.fence > 0 then
      admission.rejoin(run)
    else
      admission.join(run, run.arrival)
    end
  end
end
