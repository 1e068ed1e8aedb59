-- needs: runtime/base, state/runs, state/new_runs, state/lanes, rules/queue/sessions, rules/queue/shelves
-- needs: rules/queue/admission, rules/inboxes, rules/lifecycle/endings, rules/lifecycle/control
-- needs: rules/lifecycle/arrivals
-- What a submission becomes: accepted, merged, steered, existing or refused. This restates
-- core/lifecycle/acceptance.py.
--
-- A receipt is {outcome, run_id, reason, position, state, count}; a missing value is false. `count` is 1, except for a
-- group of plain runs, whose positions follow each other (fast/uniform_batch.lua). Sorted set `fresh:<lane>`: runs of a
-- lane that drops the oldest when it is full, by number. Runs that have started or ended meanwhile are removed when
-- they are found.

local acceptance = {}
local PLAIN = {mode = 'queue', debounce = 0, max_wait = 0}

-- Parse a submission of codec/encode.py. Fields that most submissions do not have are in a table at its end.
function acceptance.read(wire)
  local new = {
    id = wire[1], task = wire[2], args = wire[3], lane = wire[4], user = wire[5] or nil, session = wire[6] or nil,
    priority = wire[7] or 0, arrival = PLAIN, delay = 0,
  }
  local more = wire[8]
  if more then
    for name, value in pairs(more) do
      new[name] = value
    end
  end
  new.later = new.delay > 0 or new.due_at ~= nil
  return new
end

local function note(lane, new)
  return lane ~= new.lane and 'lane_unknown' or false
end

local function receipt(outcome, run_id, reason, position, state)
  return {outcome, run_id, reason or false, position or false, state or false, 1}
end

local function refused(new, lane, why)
  if why ~= 'lane_wait' and why ~= 'session_wait' then
    base.count('counts:' .. lane, 'refused ' .. why, 1)
  end
  return receipt('refused', new.id, why)
end

-- Return the receipt of a submission whose id is known already.
local function again(new)
  local taker = inboxes.taker(new.id)
  if taker then
    local run = runs.get(taker[1])
    if taker[2] == 'answered' then
      return receipt('steered', run.id, 'answered')
    end
    return receipt(taker[2], run.id, note(taker[3], new))
  end
  local known = runs.named(new.id)
  return known and receipt('accepted', known.id, note(known.lane, new))
end

local function by_key(new, lane)
  local entry = inboxes.key(new)
  if not entry then
    return nil
  elseif entry[3] ~= new.digest then
    base.count('counts:' .. lane, 'refused key_conflict', 1)
    return receipt('refused', entry[1], 'key_conflict')
  end
  local run = runs.named(entry[1])
  return receipt('existing', entry[1], false, false, run and run.state)
end

-- Return the oldest runs of the lane that are pending and were never started, up to so many. Follow-ups are not among
-- them, because nothing would report that one was dropped; of a called run, the caller learns it.
local function oldest(lane, most)
  local found, order, gone = {}, cached_zset.at('fresh:' .. lane), {}
  order:each(function(number)
    local run = runs.get(number)
    if not run or run.fence > 0 or TERMINAL[run.state] then
      gone[#gone + 1] = number
    elseif run.state == 'pending' and (not run.ties or not run.ties.parent or run.ties.call) then
      found[#found + 1] = run
    end
    return #found == most
  end)
  for _, number in ipairs(gone) do
    order:remove(number)
  end
  return found
end

-- Return why the lane takes no more runs; nil if it does, or will after it has dropped others.
local function bound(lane, new, decision)
  local book = lanes.get(lane)
  local most = book.max_pending
  if not most or book.pending < most then
    return nil
  end
  local left = book.pending
  for _, list in ipairs({decision.drops or {}, decision.cancels or {}}) do
    for _, run in ipairs(list) do
      if run.lane == lane and run.state == 'pending' then
        left = left - 1
      end
    end
  end
  if left < most or (book.when_full == 'drop_old' and #oldest(lane, 1) > 0) then
    return nil
  end
  return book.when_full == 'wait' and not new.impatient and 'lane_wait' or 'lane_full'
end

-- Drop the oldest runs until there is room for one more. If the bound was lowered far below what is pending, several
-- calls do it, because no other client can use the server meanwhile.
local function make_room(lane, most)
  local surplus = lanes.get(lane).pending + 1 - most
  local old = surplus > 0 and oldest(lane, min(surplus, MOST_MOVES)) or {}
  for i = #old, 1, -1 do
    control.drop(old[i], 'lane_full')
  end
end

-- Let the run join its session and lane, now or later; return how many runs are before it.
local function place(new, run, due_at, ahead, windowed, head)
  local session = new.session
  if due_at > NOW or (session and shelves.is_behind()) then
    local later = session ~= nil and not windowed
    run.arrival = later and new.arrival ~= PLAIN and new.arrival or nil
    shelves.put_due(run)
    if session and not new.later then
      admission.let_go_on(session, {})  -- it may have brought more room
    end
    if session and later then
      -- What it says about its session is kept in the run: an idle session keeps nothing.
      sessions.empty_if_idle(session, sessions.get(session))
    end
    return nil
  elseif session then
    return admission.join(run, new.arrival, head)
  end
  admission.join(run)
  return ahead
end

local function accepted(new, lane, decision, session)
  local book = lanes.get(lane)
  if book.max_pending and not new.inside then
    make_room(lane, book.max_pending)
  end
  if session then
    -- The runs that made way for this one may have been the session's last; what messages said about it must stay.
    sessions.put(new.session, session)
  end
  local ahead = book.pending
  local due_at = new.due_at and max(NOW, new.due_at) or NOW + new.delay
  if decision.window then
    due_at = NOW + new.arrival.debounce
  end
  local run = new_runs.make(new, lane, due_at)
  book.pending = book.pending + 1
  if book.when_full == 'drop_old' and book.max_pending then
    cached_zset.at('fresh:' .. lane):put(run.number, run.number)
  end
  if new.retry_of then
    inboxes.inherit(run, new.retry_of)
  end
  inboxes.remember(new, run)
  if session and decision.window then
    table.insert(session.windows, {new.task, new.user or false, run.number, NOW + new.arrival.max_wait})
  end
  local head = #(decision.supersedes or {}) > 0
  local before = place(new, run, due_at, ahead, decision.window, head)
  return receipt('accepted', new.id, note(lane, new), before ~= 0 and before)
end

local function answered(new, lane, taker)
  inboxes.append(taker, new, lane, 'answered')
  inboxes.remember(new, taker)
  base.count('counts:' .. lane, 'answered', 1)
  control.answer(taker, taker.wait.questions[1], new.args)
  admission.let_go_on(new.session, {})
  return receipt('steered', taker.id, 'answered')
end

local function taken(new, lane, taker, kind, book)
  inboxes.append(taker, new, lane, kind)
  if kind == 'steered' then
    control.notify_worker(taker)
  end
  inboxes.remember(new, taker)
  base.count('counts:' .. lane, kind, 1)
  local window = kind == 'merged' and sessions.window(book, new.task, new.user)
  if window and window[3] == taker.number and new.arrival.debounce > 0 then
    -- The window begins anew with this message, up to its latest end.
    shelves.remove(taker)
    taker.due_at = min(NOW + new.arrival.debounce, window[4])
    shelves.put_due(taker)
  end
  admission.let_go_on(new.session, {})
  return receipt(kind, taker.id, note(lane, new))
end

local function by_session(new, lane)
  local session = new.session
  local book = sessions.get(session)
  local given, rule, throttled = book.given, book.rule, book.throttled
  sessions.take(book, new.arrival)
  local decision = arrivals.decide(book, new)
  if decision.taker and decision.reason == 'answered' then
    return answered(new, lane, decision.taker)
  elseif decision.taker then
    return taken(new, lane, decision.taker, decision.outcome, book)
  end
  local refusal = decision.reason or (not new.inside and bound(lane, new, decision)) or nil
  if refusal then
    book.given, book.rule, book.throttled = given, rule, throttled
    sessions.empty_if_idle(session, book)
    return refused(new, lane, refusal)
  end
  arrivals.apply(decision, book)
  local answer = accepted(new, lane, decision, book)
  -- After the new run has its place: else the next run in the queue would be admitted in their stead.
  for _, run in ipairs(decision.supersedes or {}) do
    control.supersede(run, new.id)
  end
  return answer
end

-- Accept or refuse a submission that `read` has parsed; return its receipt.
function acceptance.accept(new)
  local lane = lanes.find(new.lane) and new.lane or 'main'
  local answer = again(new) or (new.key and by_key(new, lane))
  if answer then
    return answer
  end
  -- A retry by hand and a job's fire pass every bound, but a disabled task takes neither.
  if (not new.inside or new.retry_of or (new.ties and new.ties.job)) and base.set('disabled')[new.task] then
    return refused(new, lane, 'task_disabled')
  end
  if new.session and not new.later then
    if not new.inside and shelves.is_behind() then
      -- What its session's policy makes of it depends on the runs before it, and some that are due may not have joined
      -- yet.
      return refused(new, lane, 'session_wait')
    end
    return by_session(new, lane)
  end
  local refusal = not new.inside and bound(lane, new, {}) or nil
  if refusal then
    return refused(new, lane, refusal)
  end
  return accepted(new, lane, {})
end

endings.accept = function(wire)
  return acceptance.accept(acceptance.read(wire))
end
