-- needs: runtime/base, state/lanes
-- gives: turns, HEAD_START, has, with, without, OUT, FRESH, AGAIN, BACK, ASIDE, STILL, BROKEN, BROKEN_USER
-- The order of one lane: users take turns, priority is a head start, nobody starves. This restates core/turns.py, where
-- the rules are explained; names are the same. Books and seats are those of lanes.lua.

local turns = {}

local HEAD_START = 1000
local FRESH, AGAIN, BACK, ASIDE, STILL, BROKEN, BROKEN_USER = 0, 1, 2, 4, 8, 16, 32
local OUT = 101

-- Flags of `run.kind`: Lua 5.1 has no operators for bits, and few flags need none.
local function has(kind, flag)
  return kind % (2 * flag) >= flag
end

local function with(kind, flag)
  return has(kind, flag) and kind or kind + flag
end

local function without(kind, flag)
  return has(kind, flag) and kind - flag or kind
end

-- Return where in a list of turns that of a priority stands; nil if there is none.
local function turn_at(list, priority)
  for at = 1, #list, 3 do
    if list[at] == priority then
      return at
    end
  end
  return nil
end

-- Set somebody's turn, given without a name for nobody's: it is in the pace of its priority.
function turns.set(book, user, priority, last, waiting)
  if not user then
    local pace = book.paces[priority]
    pace.last, pace.waiting = last, waiting
    return
  end
  local list = lanes.seat(book, user).turns
  local at = turn_at(list, priority) or #list + 1
  list[at], list[at + 1], list[at + 2] = priority, last, waiting
end

-- Count one more first-time run as waiting, for who counts anew.
function turns.count_waiting(book, user, priority)
  if not user then
    local pace = book.paces[priority]
    pace.waiting = pace.waiting + 1
    return
  end
  local list = lanes.seat(book, user).turns
  local at = turn_at(list, priority) or #list + 1
  list[at], list[at + 1], list[at + 2] = priority, list[at + 1] or 0, (list[at + 2] or 0) + 1
end

local function raise(book, pace)
  local least, most = nil, 0
  for _, other in pairs(book.paces) do
    local v = other.v
    if other.ready > 0 and (not least or v < least) then
      least = v
    end
    if v > most then
      most = v
    end
  end
  least = least or most
  if least > pace.v then
    pace.v = least
  end
end

local function pace_of(book, priority)
  local pace = book.paces[priority]
  if not pace then
    pace = {v = 0, ready = 0, last = 0, waiting = 0}
    book.paces[priority] = pace
  end
  if pace.ready == 0 then
    raise(book, pace)
  end
  return pace
end

turns.pace = pace_of

-- Give so many first-time runs, which stand behind one another, their tags; return the first one's. A turn that was just
-- taken is never ahead of those that wait. `seat` is their user's, if they have one.
local function first_tag(pace, seat, priority, count)
  local v = pace.v
  if not seat then
    local tag = max(v, min(pace.last, v + pace.waiting)) + 1
    pace.last, pace.waiting = tag + count - 1, pace.waiting + count
    return tag
  end
  local list = seat.turns
  local at = turn_at(list, priority)
  if not at then
    at = #list + 1
    list[at], list[at + 1], list[at + 2] = priority, v + count, count
    return v + 1
  end
  local last, waiting, tag = list[at + 1], list[at + 2], v
  if last > v then
    tag = last < v + waiting and last or v + waiting
  end
  list[at + 1], list[at + 2] = tag + count, waiting + count
  return tag + 1
end

-- Give a run of that kind its place in the ready order; return its rank. `seat` is its user's, if it has one.
function turns.enter(book, priority, kind, seat)
  local pace = pace_of(book, priority)
  pace.ready = pace.ready + 1
  local tag = kind == FRESH and first_tag(pace, seat, priority, 1) or pace.v + 1
  return tag - HEAD_START * priority
end

-- Give so many first-time runs of a user their places in the ready order; return the first one's rank, from which on
-- they are consecutive.
function turns.enter_fresh(book, user, priority, count)
  local pace = pace_of(book, priority)
  pace.ready = pace.ready + count
  return first_tag(pace, user and lanes.seat(book, user), priority, count) - HEAD_START * priority
end

-- Give a first-time run its place in its user's parked set; return its rank.
function turns.enter_parked(book, priority, seat)
  local pace, list = book.paces[priority], seat.turns
  if not pace or pace.ready == 0 then
    pace = pace_of(book, priority)
  end
  for at = 1, #list, 3 do
    if list[at] == priority then
      local tag, last, waiting = pace.v, list[at + 1], list[at + 2]
      if last > tag then
        tag = last < tag + waiting and last or tag + waiting
      end
      list[at + 1], list[at + 2] = tag + 1, waiting + 1
      return tag + 1 - HEAD_START * priority
    end
  end
  return first_tag(pace, seat, priority, 1) - HEAD_START * priority
end

-- Take a run out of the ready order, for whatever reason: one of that kind, `of` tells whose it is.
function turns.leave(book, of, kind)
  local pace = book.paces[of.priority]
  pace.ready = pace.ready - 1
  if has(kind, BACK) and of.user then
    lanes.seat(book, of.user).out = 0
  end
end

function turns.set_aside(book, run)
  turns.leave(book, run, run.kind)
  run.kind = with(without(run.kind, BACK), ASIDE)
end

function turns.set_back(book, run)
  run.kind = without(without(without(run.kind, ASIDE), BROKEN), BROKEN_USER)
  local pace = book.paces[run.priority]
  pace.ready = pace.ready + 1
end

-- Count so many first-time runs as not waiting any more.
local function wait_no_more(book, priority, seat, count)
  if not seat then
    local pace = book.paces[priority]
    pace.waiting = pace.waiting - count
    if pace.waiting == 0 then
      pace.last = 0
    end
    return
  end
  local list = seat.turns
  for at = 1, #list, 3 do
    if list[at] == priority then
      list[at + 2] = list[at + 2] - count
      return
    end
  end
end

turns.wait_no_more = wait_no_more

-- Take so many runs of that priority out of the ready order, the last of them at that rank.
local function take_out(book, priority, rank, count)
  local pace, tag = book.paces[priority], rank + HEAD_START * priority
  pace.ready = pace.ready - count
  if tag > pace.v then
    pace.v = tag
  end
end

-- Move so many runs that are alike from the ready order to active: they have that priority and their user that seat, if
-- they have one. `rank` is the last's.
function turns.start(book, priority, seat, kind, rank, count)
  take_out(book, priority, rank, count)
  book.active, book.pending = book.active + count, book.pending - count
  if kind % 2 < AGAIN then
    wait_no_more(book, priority, seat, count)
  end
  if seat then
    seat.active = seat.active + count
    if kind % 4 >= BACK then
      seat.out = 0
    end
  end
end

-- Do the same for one run that came back and was never started, but for the lane's counts of what is active and pending.
function turns.start_back(book, priority, seat, rank)
  take_out(book, priority, rank, 1)
  seat.active, seat.out = seat.active + 1, 0
  wait_no_more(book, priority, seat, 1)
end

-- Tell whether its user keeps a run of that priority and kind from starting: at the cap, or with runs that were parked
-- before it.
function turns.must_park(book, user, seat, priority, kind)
  local cap = book.uncapped and book.per_user or lanes.cap(book, user)
  if cap and seat.active >= cap then
    return true
  end
  return kind == FRESH and (seat.parked > 0 or seat.out >= OUT + priority)
end
