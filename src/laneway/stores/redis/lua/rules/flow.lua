-- needs: runtime/base, state/records, runtime/cached_zset, state/runs, state/lanes, rules/turns, state/sessions
-- needs: rules/circuits, rules/shelves, rules/holding
-- gives: flow, bring_back, bring_first, admit
-- How pending runs come and go: into their session, into their lane's order, and out again. This restates
-- core/entering.py, where the rules are explained; names are the same. claiming.lua builds the claim on it.

local flow = {}
local put, pull, LONE_TICKET = cached_zset.put, shelves.pull, shelves.LONE_TICKET

-- Let the first of the user's parked runs into the order: the gate is open, and none of them is there.
local function bring_first(book, user, seat)
  local line, kinds = seat.line, runs.kinds
  if not line or not kinds or line[3] < LEAST_LONE then
    local number, priority, kind, field = shelves.unpark(book.name, user, seat)
    seat.out = OUT + priority
    shelves.put_ready(book, number, kind, turns.enter(book, priority, BACK, nil), field)
    return
  end
  -- What most are is done straight away, as `shelves.unpark` does it, `turns.enter`, and `shelves.put_ready`.
  local field, priority, count = line[2], (line[3] - LONE_TICKET) / 2, seat.parked
  local number, pace = field + 0, book.paces[priority]
  seat.parked, seat.out = count - 1, OUT + priority
  if count > 1 then
    pull(line, 1)
  else
    seat.line = false
  end
  if not pace or pace.ready == 0 then
    pace = turns.pace(book, priority)
  end
  pace.ready = pace.ready + 1
  runs.lone[number] = field
  put(book.order_ or shelves.ready_of(book), pace.v + 1 - HEAD_START * priority, number)
end

-- Do so if the gate is open and none of them is there.
local function bring_back(book, user, seat)
  if seat.out > 0 or seat.parked == 0 then
    return
  end
  local cap = book.uncapped and book.per_user or lanes.cap(book, user)
  if not cap or seat.active < cap then
    bring_first(book, user, seat)
  end
end

-- Let in a run, whose session, if it has one, is not paused: it has just admitted it. `of` tells whose it is.
local function enter_lane(number, of, kind)
  local book, user, priority = lanes.get(of.lane), of.user, of.priority
  local seat = user and lanes.seat(book, user)
  if seat and kind == FRESH and seat.parked > 0 then
    -- Invariant: the gate of the set is closed, or one of it is back; one more changes nothing.
    local rank = turns.enter_parked(book, priority, seat)
    shelves.park(book.name, user, seat, number, priority, kind, rank)
  else
    shelves.put_ready(book, number, kind, turns.enter(book, priority, kind, seat))
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

-- Let the session's next runs go on, as far as it has room. One that is paused takes its place, and waits.
local function admit(session, book)
  while book.held > 0 and sessions.admits(book) do
    local number, field = holding.take(session, book)
    local is, of = runs.glance(field)
    local kind = is.kind
    local again = has(kind, AGAIN)
    sessions.call_in(book, number, again)
    if is.state == 'paused' then
      runs.get(number).shelf = false
    else
      enter_lane(number, of, kind)
    end
    if not again then
      return  -- nobody else is admitted before it has started
    end
  end
end

-- Take in a run that is due for the first time. Return how many of its session are ahead if it waits. At the `head` it
-- comes before all that were never started.
function flow.join(run, arrival, head)
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
  holding.put(run, head and sessions.place_at_head(book) or sessions.place(book))
  admit(run.session, book)
  return ahead
end

-- Take back a run that was claimed before and is due again: it has kept its session place, or stepped out.
function flow.rejoin(run)
  run.kind = AGAIN
  local book = run.session and sessions.get(run.session)
  if book and base.index_of(book.outside, run.number) then
    holding.put(run, sessions.place_in_front(book))
    admit(run.session, book)
  else
    enter(run)
  end
end

-- Let others of its session pass a run that waits for its next attempt, if that is the session's rule.
function flow.step_out(run)
  if run.session then
    local book = sessions.get(run.session)
    if book.rule.pass_on_retry and base.index_of(book.admitted, run.number) then
      sessions.step_out(book, run.number)
      admit(run.session, book)
    end
  end
end

-- Let a run wait that is executed no more: it keeps its session's place, unless others may pass it.
function flow.wait(run, asks)
  if run.session then
    if asks then
      local book = sessions.get(run.session)
      table.insert(sessions.own_list(book, 'asking'), run.number)
    end
    flow.step_out(run)
  end
end

-- Count a run as waiting no more.
function flow.hear(run)
  if run.session then
    sessions.hear(sessions.get(run.session), run.number)
  end
end

-- Take back a run that is due and was paused, off its shelf, where it was: in its session, or at its tail.
function flow.take_up(run, arrival)
  if not run.session or base.index_of(sessions.get(run.session).admitted, run.number) then
    enter(run)
  elseif has(run.kind, AGAIN) then
    flow.rejoin(run)
  else
    flow.join(run, arrival)
  end
end

-- Tell whether a run that was never started has a place in its session: it was due, whatever the clock says.
function flow.is_admitted(run)
  if not run.session or has(run.kind, AGAIN) then
    return false
  end
  local book = sessions.get(run.session)
  sessions.empty_if_idle(run.session, book)
  return book.unstarted_then == run.number
end

-- Free the lane's and the user's slot of a run that is executed no more; `of` tells whose it is.
function flow.free(of)
  local book, user = lanes.get(of.lane), of.user
  book.active = book.active - 1
  if user then
    local seat = lanes.seat(book, user)
    seat.active = seat.active - 1
    bring_back(book, user, seat)
  end
end

-- Free the session place of a run that has ended, if it had one; `of` tells whose it is.
function flow.ended(of, number)
  local session = of.session
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

-- Let the next of a session in that had this run alone; `roster` is its book.
local function let_in_next(book, seat, of, number, roster)
  local held, admitted = roster.held, roster.admitted
  if not roster.simple or held == 0 or roster.back > 0 or admitted[1] ~= number or admitted[2] then
    flow.ended(of, number)
    return
  end
  local other, field, priority = holding.take(of.session, roster)
  admitted[1], roster.unstarted_then, roster.held = other, other, held - 1
  if roster.held_of ~= (of.key or records.key_of(of)) then
    local is, other_of = runs.glance(field)
    if is.state ~= 'pending' then
      runs.get(other).shelf = false
    else
      enter_lane(other, other_of, FRESH)
    end
  elseif seat and seat.parked > 0 then
    shelves.park_lone(book.name, of.user, seat, field, priority, turns.enter_parked(book, priority, seat))
  else
    shelves.put_ready(book, other, FRESH, turns.enter(book, priority, FRESH, seat))
  end
end

local SCALE, LEAST, NEXT = holding.SCALE, holding.LEAST, holding.NEXT
local park_lone, put_ready, enter_parked, enter_turn = shelves.park_lone, shelves.put_ready, turns.enter_parked, turns.enter

-- Do both for runs that have ended, one after the other: `owners` tell whose they were, `fields` their numbers as texts,
-- from one place to another; where there is no owner, there is nothing to do. How many they were of each lane is added to
-- `by_lane`, for who frees the lanes' slots. What most ends are is done straight away: the session had this run alone, and
-- admits the next, of the same user. `rosters` are the books of sessions that were loaded.
function flow.finish(owners, fields, first, last, rosters, by_lane)
  local find, next_head, digits, lane, book, seats, cap = find, NEXT, base.known_digits(), nil, nil, nil, nil
  for i = first, last do
    local of = owners[i]
    if of then
      if of.lane ~= lane then
        lane, book = of.lane, lanes.get(of.lane)
        seats, cap, by_lane[lane] = lanes.seats(book).kept, lanes.common_cap(book), by_lane[lane] or 0
      end
      by_lane[lane] = by_lane[lane] + 1
      local user, session = of.user, of.session
      local seat = user and (seats[user] or lanes.seat(book, user))
      if seat then
        local active = seat.active - 1
        seat.active = active
        if seat.out == 0 and seat.parked > 0 then
          if cap and active < cap then
            bring_first(book, user, seat)
          else
            bring_back(book, user, seat)
          end
        end
      end
      local roster = session and (rosters[session] or sessions.get(session))
      if roster then
        local admitted = roster.admitted
        if not roster.quick or admitted[1] ~= fields[i] + 0 or roster.held_of ~= of.key or not seat then
          let_in_next(book, seat, of, fields[i] + 0, roster)
        else
          local heads = roster.heads
          local _, taken, field, score = find(heads, next_head, roster.taken + 1)  -- as `holding.take` does
          local other, priority = field + 0, score % SCALE - LEAST
          admitted[1], roster.unstarted_then, roster.held, roster.taken = other, other, roster.held - 1, taken
          roster.listed = false
          if seat.parked > 0 then
            park_lone(lane, user, seat, field, priority, enter_parked(book, priority, seat))
          else
            put_ready(book, other, FRESH, enter_turn(book, priority, FRESH, seat))
            digits[other] = field
          end
          if taken == #heads then
            holding.forget(roster)
          end
        end
      end
    end
  end
end

-- Count a run as held no more that was taken from behind its session, pending or paused.
function flow.unhold(run)
  sessions.leave(sessions.get(run.session), has(run.kind, AGAIN))
end

local function withdraw_from_lane(book, run, shelf)
  if has(run.kind, STILL) then
    return
  end
  local user = run.user
  local seat, back = user and lanes.seat(book, user), has(run.kind, BACK)
  if not has(run.kind, AGAIN) then
    turns.wait_no_more(book, run.priority, seat, 1)
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

-- Take back the lane's counts of a pending run that was taken from this shelf, or is paused where it is held. It keeps
-- its session place. It comes back, if it does, as it came.
function flow.set_down(run, shelf)
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

-- Take back the counts of a pending run taken from this shelf, that ends; `flow.ended` frees its session place.
function flow.withdraw(run, shelf)
  if shelf == 'held' then
    flow.unhold(run)
  end
  flow.set_down(run, shelf)
end

-- Hold an admitted run that was taken from this shelf of its lane: its session is paused now.
function flow.keep_still(run, shelf)
  withdraw_from_lane(lanes.get(run.lane), run, shelf)
  run.kind = has(run.kind, AGAIN) and AGAIN or FRESH
  enter(run)
end

-- Lower the session to one run at a time, or not any more.
function flow.throttle(session, throttled)
  local book = sessions.get(session)
  if book.throttled ~= throttled then
    sessions.throttle(book, throttled)
    admit(session, book)
  end
end

-- Let a session go on that is paused no more, or has more room: first those that were kept still.
function flow.let_go_on(session, still)
  for _, run in ipairs(still) do
    run.kind = without(run.kind, STILL)
    enter(run)
  end
  admit(session, sessions.get(session))
end

-- Bring back parked runs of these users (a sorted list) after the lane's limits were changed.
function flow.reopen(lane, users)
  local book = lanes.get(lane)
  for _, user in ipairs(users) do
    bring_back(book, user, lanes.seat(book, user))
  end
end
