-- needs: runtime/base, state/runs, state/lanes, rules/queue/turns, rules/queue/sessions, rules/queue/circuits
-- needs: rules/queue/shelves
-- gives: admission, bring_back, admit
-- How pending runs enter their session and their lane's order, and leave them. This restates core/queue/admission.py,
-- which explains the rules; names are the same. claim.lua builds the claim on it.
--
-- `labels` are the run itself, or the labels of its record if nothing has parsed it (state/run_records.lua).

local admission = {}

-- Put the first of the user's parked runs into the ready order, if its gate is open and none of them is there already.
local function bring_back(book, user, seat)
  if seat.out > 0 or seat.parked == 0 then
    return
  end
  local cap = lanes.cap(book, user)
  if cap and seat.active >= cap then
    return
  end
  local number = shelves.unpark(book.name, user, seat)
  local _, labels, kind = runs.peek(base.digits(number))
  kind = with(kind, BACK)
  seat.out = OUT + labels.priority
  shelves.put_ready(book.name, number, kind, turns.enter(book, labels, kind))
end

-- Put a run into its lane's order, or behind its user. Its session, if it has one, has admitted it and is not paused.
local function enter_lane(number, labels, kind)
  local book, user = lanes.get(labels.lane), labels.user
  local seat = user and lanes.seat(book, user)
  if seat and kind == FRESH and seat.parked > 0 then
    -- Invariant: the gate of the parked set is closed, or one run of it is in the order; one more parked run changes
    -- nothing.
    shelves.park(labels.lane, user, seat, number, kind, turns.enter(book, labels, kind, 0))
  else
    shelves.put_ready(labels.lane, number, kind, turns.enter(book, labels, kind))
  end
end

local function enter(run)
  if run.session and sessions.get(run.session).paused then
    run.kind = has(run.kind, AGAIN) and AGAIN + STILL or STILL
    shelves.put_parked(run, 'session:' .. run.session, 0)
  else
    enter_lane(run.number, run, run.kind)
  end
end

-- Admit the session's next runs, as far as it has room. A paused one takes its place and waits there.
local function admit(session, book)
  while book.held > 0 and sessions.admits(book) do
    local number = shelves.held(session):take()
    local status, labels, kind = runs.peek(base.digits(number))
    local again = has(kind, AGAIN)
    sessions.call_in(book, number, again)
    if status.state == 'paused' then
      runs.get(number).shelf = false
    else
      enter_lane(number, labels, kind)
    end
    if not again then
      return  -- no other run is admitted before this one has started
    end
  end
end

-- Take in a run that is due for the first time. Return how many runs of its session are ahead if it waits. At the
-- `head` it comes before all runs that were never started.
function admission.join(run, arrival, head)
  if not run.session then
    enter(run)
    return nil
  end
  local book = sessions.get(run.session)
  if arrival then
    sessions.take(book, arrival)
  end
  sessions.close(book, run.number)
  if book.held == 0 and sessions.admits(book) then
    sessions.admit(book, run.number)
    enter_lane(run.number, run, run.kind)
    return nil
  end
  local ahead = not head and #book.admitted + book.held or nil
  shelves.put_held(run, head and sessions.place_at_head(book) or sessions.place(book))
  admit(run.session, book)
  return ahead
end

-- Take in a run again that was started before and is due: it has kept its place in its session, or stepped out.
function admission.rejoin(run)
  run.kind = AGAIN
  local book = run.session and sessions.get(run.session)
  if book and base.index_of(book.outside, run.number) then
    shelves.put_held(run, sessions.place_in_front(book))
    admit(run.session, book)
  else
    enter(run)
  end
end

-- Give up the session place of a run that waits for its next attempt, if that is the session's rule.
function admission.step_out(run)
  if run.session then
    local book = sessions.get(run.session)
    if book.rule.pass_on_retry and base.index_of(book.admitted, run.number) then
      sessions.step_out(book, run.number)
      admit(run.session, book)
    end
  end
end

-- Note that a run waits for an answer (`asks`) or for other runs. It keeps its session place, unless others may pass
-- it.
function admission.wait(run, asks)
  if run.session then
    if asks then
      local book = sessions.get(run.session)
      table.insert(book.asking, run.number)
    end
    admission.step_out(run)
  end
end

-- Note that a run does not wait any more.
function admission.stop_asking(run)
  if run.session then
    sessions.stop_asking(sessions.get(run.session), run.number)
  end
end

-- Take in a run again that is due and was paused: where it was in its session, or at the session's end.
function admission.take_up(run, arrival)
  if not run.session or base.index_of(sessions.get(run.session).admitted, run.number) then
    enter(run)
  elseif has(run.kind, AGAIN) then
    admission.rejoin(run)
  else
    admission.join(run, arrival)
  end
end

-- Return whether a run that was never started has a place in its session: then it was due, whatever the clock says.
function admission.is_admitted(run)
  if not run.session or has(run.kind, AGAIN) then
    return false
  end
  local book = sessions.get(run.session)
  sessions.empty_if_idle(run.session, book)
  return book.unstarted == run.number
end

-- Free the slots of a run that is not executed any more: its lane's and its user's.
function admission.free(labels)
  local book, user = lanes.get(labels.lane), labels.user
  book.active = book.active - 1
  if user then
    local seat = lanes.seat(book, user)
    seat.active = seat.active - 1
    bring_back(book, user, seat)
  end
end

-- Free the session place of a run that has ended, if it had one.
function admission.ended(labels, number)
  local session = labels.session
  if session then
    local book = sessions.get(session)
    sessions.ended(book, number)
    sessions.close(book, number)
    if book.held > 0 then
      admit(session, book)
    else
      sessions.empty_if_idle(session, book)
    end
  end
end

-- Prefetch what the ends of runs with these labels change: seats, sessions, and the runs that come next.
function admission.prefetch(all_labels)
  local users, names, fields = {}, {}, {}
  for i = 1, #all_labels do
    local labels = all_labels[i]
    if labels.user then
      users[labels.lane] = users[labels.lane] or {}
      table.insert(users[labels.lane], labels.user)
    end
    names[#names + 1] = labels.session or nil
  end
  sessions.load(names)
  for lane, list in pairs(users) do
    local seats, ends = lanes.seats(lanes.get(lane)), {}
    seats:load(list)
    for i = 1, #list do
      ends[list[i]] = (ends[list[i]] or 0) + 1
    end
    for user, count in pairs(ends) do
      if seats:get(user).parked > 0 then
        shelves.parked(lane, 'user:' .. user):add_next(count, fields)
      end
    end
  end
  for i = 1, #names do
    local book = sessions.find(names[i])
    if book and book.held > 0 then
      shelves.held(names[i]):add_next(1, fields)
    end
  end
  runs.prefetch(fields)
end

-- Count a run, pending or paused, as not held any more: it was taken from the runs that its session holds.
function admission.unhold(run)
  sessions.leave(sessions.get(run.session), has(run.kind, AGAIN))
end

local function withdraw_from_lane(book, run, shelf)
  if has(run.kind, STILL) then
    return
  end
  local user = run.user
  local seat, back = user and lanes.seat(book, user), has(run.kind, BACK)
  if not has(run.kind, AGAIN) then
    turns.wait_no_more(book, run)
  end
  if shelf == 'ready' then
    turns.leave(book, run, run.kind)
  end
  if user then
    if shelf == 'parked' and not has(run.kind, ASIDE) then
      seat.parked = seat.parked - 1
    end
    if back then
      bring_back(book, user, seat)
    end
  end
end

-- Undo the lane's counts of a pending run that was taken from this shelf, or that is paused where it is held. It keeps
-- its session place.
function admission.set_down(run, shelf)
  local book = lanes.get(run.lane)
  book.pending = book.pending - 1
  if shelf == 'ready' or shelf == 'parked' then
    withdraw_from_lane(book, run, shelf)
  elseif shelf == 'due' and run.session then
    local session = sessions.get(run.session)
    sessions.close(session, run.number)
    sessions.empty_if_idle(run.session, session)
  end
  run.kind = has(run.kind, AGAIN) and AGAIN or FRESH
end

-- Undo the counts of a pending run that was taken from this shelf and ends; `admission.ended` frees its session place.
function admission.withdraw(run, shelf)
  if shelf == 'held' then
    admission.unhold(run)
  end
  admission.set_down(run, shelf)
end

-- Park an admitted run behind its session, which is paused now; it was taken from this shelf of its lane.
function admission.keep_still(run, shelf)
  withdraw_from_lane(lanes.get(run.lane), run, shelf)
  run.kind = has(run.kind, AGAIN) and AGAIN or FRESH
  enter(run)
end

-- Set whether the session gets one run at a time.
function admission.throttle(session, throttled)
  local book = sessions.get(session)
  if book.throttled ~= throttled then
    book.throttled = throttled
    admit(session, book)
  end
end

-- Let a session go on that was resumed or has more room: first the runs that were parked behind it.
function admission.let_go_on(session, still)
  for _, run in ipairs(still) do
    run.kind = without(run.kind, STILL)
    enter(run)
  end
  admit(session, sessions.get(session))
end

-- Bring back parked runs of these users (a sorted list) after a limit of the lane has changed.
function admission.reopen(lane, users)
  local book = lanes.get(lane)
  for _, user in ipairs(users) do
    bring_back(book, user, lanes.seat(book, user))
  end
end
