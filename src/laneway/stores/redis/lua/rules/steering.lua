-- needs: runtime/base, state/runs, state/logs, state/lanes, state/sessions, rules/circuits, rules/shelves, rules/flow
-- needs: state/memos, state/inboxes, rules/endings, state/workers, rules/waking
-- gives: steering, PAUSED
-- Control of runs: what a cancel, a pause, a resume, a drop and an answer do; restates core/lifecycle/control.py and what the
-- memory store does with it (stores/memory/steering.py).
--
-- A change is {state, drafts, request, reason}.

local steering = {call = nil}  -- the id of the call under way, noted with each run that it changes
local abandons = false  -- what is called by whom a call abandons, is abandoned

base.at_begin(function()
  steering.call, abandons = nil, false
end)

local CANCEL_REQUESTED = {'"cancel_requested"', '{}'}
local PAUSED, RESUMED = {'"paused"', '{}'}, {'"resumed"', '{}'}

-- What a session's policy may see -----------------------------------------------------------------------------------

-- Return the runs that have joined and were never started, paused ones included, in their order.
function steering.queued(session)
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

-- Return the runs that were started and have not ended, by acceptance.
function steering.active(session)
  local book = sessions.find(session)
  local numbers = book and sessions.active(book) or {}
  table.sort(numbers)
  return runs.all_of(numbers)
end

-- Return the runs that were never started and have not joined: due later, or paused before they were due.
function steering.future(session)
  return runs.all_of(cached_zset.at('later:' .. session):all())
end

-- Doing it ----------------------------------------------------------------------------------------------------------

-- Tell the worker that executes the run, if there is one, that something changed of it.
function steering.tell(run)
  workers.ask(run)
  if run.worker then
    waking.nudge(run.worker)
  end
end

local function take_out(run, before)
  local shelf = run.shelf
  if before == 'pending' then
    shelves.remove(run)
    flow.withdraw(run, shelf)
  elseif before == 'paused' then
    if shelf == 'held' then
      shelves.remove(run)
      flow.unhold(run)
    else
      steering.forget_later(run)
    end
  end
end

-- A run that was paused before it was due is still to join while it is paused.
function steering.forget_later(run)
  if run.session and run.fence == 0 and not flow.is_admitted(run) then
    shelves.note_later(run, false)
  end
end

local function put_back(run)
  local book = lanes.get(run.lane)
  book.pending = book.pending + 1
  if run.shelf == 'held' then
    return  -- it was held all the time
  end
  steering.forget_later(run)
  if run.due_at > NOW and not flow.is_admitted(run) then
    shelves.put_due(run)
  else
    flow.take_up(run, run.arrival)
  end
end

-- Do it. A run that ends while it is running has lost its lease already.
function steering.apply(run, change)
  local before = run.state
  if before == 'waiting' and change.state ~= 'waiting' then
    shelves.clear_deadline(run)
  end
  runs.set_state(run, change.state)
  run.request = change.request
  logs.say(run, change.drafts)
  if TERMINAL[change.state] then
    run.reason = change.reason
    take_out(run, before)
    if before == 'running' then
      flow.free(run)
      circuits.ended(run, nil)
    end
    endings.close(run)
    flow.ended(run, run.number)
    run.worker, run.lapsed = false, nil
  elseif before == 'waiting' then
    if change.state ~= 'waiting' then  -- else only what was requested of it is taken back
      flow.hear(run)
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
    flow.set_down(run, shelf)
  elseif change.state == 'pending' then
    put_back(run)
  end
  run.call = steering.call
  steering.tell(run)
end

-- Do to a run what follows from a call that was about another.
local function beside(run, change)
  local call_id = steering.call
  steering.call = nil
  steering.apply(run, change)
  steering.call = call_id
end

-- What lets a waiting run go on makes of it: pending, or paused if that was requested.
local function going_on(run, draft)
  if run.request == 'pause' then
    return {state = 'paused', drafts = {draft, PAUSED}}
  end
  return {state = 'pending', drafts = {draft}}
end

-- The changes -------------------------------------------------------------------------------------------------------

-- Cancel a run that has not ended; tell whether that changed it. `clears`: what lies unread in its inbox is dropped
-- with it; `abandon`: nobody waits for what executes it; `why` is a reason to note.
function steering.cancel(run, clears, abandon, why)
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
      workers.forget_if_done(holder)
    end
  end
  local before = abandons
  abandons = abandon or false
  steering.apply(run, change)
  abandons = before
  return true
end

-- Drop a run that was never started.
function steering.drop(run, why)
  base.count('counts:' .. run.lane, 'dropped ' .. why, 1)
  inboxes.forget_keys(run)
  local drafts = {logs.draft('dropped', 'reason', why), logs.done('dropped')}
  steering.apply(run, {state = 'dropped', drafts = drafts, reason = why})
end

-- Pause a run that has not ended, nor is paused.
function steering.pause(run)
  if run.state == 'running' then
    steering.apply(run, {state = 'running', drafts = {{'"pause_requested"', '{}'}}, request = 'pause'})
  else
    steering.apply(run, {state = 'paused', drafts = {PAUSED}})
  end
end

-- Resume a run that is paused, or was requested to be.
function steering.resume(run)
  local state = run.request == 'pause' and run.state or 'pending'
  steering.apply(run, {state = state, drafts = {RESUMED}})
end

-- End a run that waits for an answer: the message of this id came instead.
function steering.supersede(run, by)
  local drafts = {logs.draft('superseded', 'by', by), logs.done('cancelled')}
  steering.apply(run, {state = 'cancelled', drafts = drafts, reason = 'superseded'})
end

-- Answer a question that a run waits for, with JSON text.
function steering.answer(run, question, answer)
  memos.keep(run, {'answer', question[1], answer, question[4], 0, run.attempt})
  steering.apply(run, going_on(run, logs.draft('answered', 'name', question[1], 'answer', {answer})))
end

-- End a run whose question nobody answered in time.
function steering.expire(run)
  local late
  for _, question in ipairs(run.wait.questions) do
    if not late and question[5] and question[5] <= NOW then
      late = question[1]
    end
  end
  local drafts = {logs.draft('unanswered', 'name', late), logs.done('cancelled')}
  beside(run, {state = 'cancelled', drafts = drafts, reason = 'unanswered'})
end

endings.cancel = function(run)
  local call_id = steering.call
  steering.call = nil
  steering.cancel(run, false, abandons, 'parent_ended')
  steering.call = call_id
end

endings.let_go_on = function(parent, draft)
  beside(parent, going_on(parent, draft))
end

-- Let runs that are due join, and end those whose questions were not answered in time.
function steering.make_due()
  if base.is_absent('due') then
    return  -- nor are there deadlines
  end
  local deadlines = cached_zset.at('deadlines')
  while true do
    local till = deadlines:first()
    if not till or till > NOW then
      break
    end
    steering.expire(runs.get(deadlines:take()))
  end
  for _ = 1, MOST_MOVES do
    local run = shelves.take_due()
    if not run then
      return
    end
    if run.fence > 0 then
      flow.rejoin(run)
    else
      flow.join(run, run.arrival)
    end
  end
end
