-- needs: runtime/base, state/runs, rules/queue/sessions, rules/lifecycle/control
-- What a message does to its session: it waits, is merged, steers, interrupts, displaces others, or is refused. This
-- restates core/lifecycle/arrivals.py, which explains the order of the rules.
--
-- A decision is {outcome, reason, taker, drops, cancels, interrupts, window, supersedes}; a missing value is nil.

local arrivals = {}

local function brings_others(new)
  return new.ties ~= nil and new.ties.follows == true
end

local function last_of(list, fits)
  for i = #list, 1, -1 do
    if fits(list[i]) then
      return list[i]
    end
  end
  return nil
end

local function interrupting(book, session, opens)
  return {
    drops = sessions.queued(book) > 0 and control.queued(session) or {},
    cancels = #sessions.active(book) > 0 and control.active(session) or {},
    interrupts = true,
    window = opens,
  }
end

local function is_busy(book)
  return #book.admitted > 0 or #book.outside > 0 or book.held > 0
end

local function by_overlap(book, new)
  local overlap = new.ties.overlap
  if overlap == 'interrupt' then
    return interrupting(book, new.session)
  elseif overlap == 'skip' and is_busy(book) then
    return {outcome = 'refused', reason = 'session_busy'}
  elseif overlap == 'queue' and sessions.queued(book) > 0 then
    for _, run in ipairs(control.queued(new.session)) do
      if run.ties and run.ties.job == new.ties.job then
        return {outcome = 'refused', reason = 'session_full'}
      end
    end
  end
  return {}
end

local function by_question(book, new)
  local mode, rule = new.arrival.mode, book.rule.while_waiting
  if mode == 'interrupt' or mode == 'reject' or rule == 'queue' then
    return nil
  end
  local numbers, asking = {}, {}
  for i, number in ipairs(book.asking) do
    numbers[i] = number
  end
  table.sort(numbers)
  for _, number in ipairs(numbers) do
    local run = runs.get(number)
    if (run.user or false) == (new.user or false) then
      asking[#asking + 1] = run
    end
  end
  if #asking == 0 then
    return nil
  elseif rule == 'answer' then
    if brings_others(new) then
      return nil
    end
    return {outcome = 'steered', reason = 'answered', taker = asking[1]}
  end
  return {supersedes = asking, window = new.arrival.debounce > 0}
end

local function by_mode(book, new)
  local mode, session = new.arrival.mode, new.session
  if mode == 'reject' and is_busy(book) then
    return {outcome = 'refused', reason = 'session_busy'}
  elseif mode == 'collect' and sessions.queued(book) > 0 and not brings_others(new) then
    local taker = last_of(control.queued(session), function(run)
      return run.task == new.task and (run.user or false) == (new.user or false)
    end)
    return taker and {outcome = 'merged', taker = taker}
  elseif mode == 'steer' and #sessions.active(book) > 0 and not brings_others(new) then
    local taker = last_of(control.active(session), function(run)
      return run.task == new.task and run.request ~= 'cancel'
    end)
    return taker and {outcome = 'steered', taker = taker}
  elseif mode == 'interrupt' then
    return interrupting(book, session, new.arrival.debounce > 0)
  end
  return nil
end

local function by_cap(book, new)
  local opens, cap = new.arrival.debounce > 0, book.rule.cap or 1
  if sessions.queued(book) < cap then
    return {window = opens}
  end
  -- Follow-ups and runs of jobs are outside the cap: no message displaces them, and they keep no message out.
  local messages = {}
  for _, run in ipairs(control.queued(new.session)) do
    if not run.ties or not (run.ties.parent or run.ties.job) then
      messages[#messages + 1] = run
    end
  end
  local surplus, drops = #messages + 1 - cap, {}
  if surplus > 0 and book.rule.drop == 'new' then
    return {outcome = 'refused', reason = 'session_full'}
  end
  for i = 1, surplus do
    drops[i] = messages[i]
  end
  return {drops = drops, window = opens}
end

-- Return what a message does to its session, whose book has its policy already. This changes nothing.
function arrivals.decide(book, new)
  if new.ties and new.ties.overlap and not new.later then
    return by_overlap(book, new)
  elseif new.inside or new.later then
    return {}
  end
  local window = sessions.window(book, new.task, new.user)
  if window and not brings_others(new) then
    return {outcome = 'merged', taker = runs.get(window[3])}
  end
  return #book.asking > 0 and by_question(book, new) or by_mode(book, new) or by_cap(book, new)
end

-- Drop and cancel the runs that the message displaces.
function arrivals.apply(decision, book)
  local drops = decision.drops or {}
  -- The last run first: else each dropped run would let the next one be admitted, only to be dropped in turn.
  for i = #drops, 1, -1 do
    control.drop(drops[i], decision.interrupts and 'interrupted' or 'session_full')
  end
  for _, run in ipairs(decision.cancels or {}) do
    if not TERMINAL[run.state] then
      control.cancel(run, true)
    end
  end
  if decision.interrupts then
    book.alone = #book.admitted > 0
  end
end
