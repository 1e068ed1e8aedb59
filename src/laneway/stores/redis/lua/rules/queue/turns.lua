-- needs: runtime/base, state/lanes
-- gives: turns, HEAD_START, has, with, without, OUT, FRESH, AGAIN, BACK, ASIDE, STILL, BROKEN, BROKEN_USER
-- The order of one lane: users take turns, priority is a head start, no user starves. This restates
-- core/queue/turns.py, which explains the rules; names are the same. Books and seats are those of state/lanes.lua.
--
-- `labels` are the run itself, or the labels of its record if nothing has parsed it (state/run_records.lua).

local turns = {}

local HEAD_START = 1000
local FRESH, AGAIN, BACK, ASIDE, STILL, BROKEN, BROKEN_USER = 0, 1, 2, 4, 8, 16, 32
local OUT = 101

-- Flags of `run.kind`. Lua 5.1 has no operators for bits.
local function has(kind, flag)
  return kind % (2 * flag) >= flag
end

local function with(kind, flag)
  return has(kind, flag) and kind or kind + flag
end

local function without(kind, flag)
  return has(kind, flag) and kind - flag or kind
end

-- Return where the turn of a priority is in a list of turns; nil if there is none.
local function turn_at(list, priority)
  for at = 1, #list, 3 do
    if list[at] == priority then
      return at
    end
  end
  return nil
end

-- Set a user's turn. Runs without a user have theirs in the pace of its priority.
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

-- Count one more first-time run as waiting, in a recount.
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

-- Give tags to so many first-time runs in a row, and return the first tag. `seat` is their user's, if they have one. A
-- turn that was just taken is never ahead of the turns that wait.
local function first_tag(pace, seat, priority, count)
  local v = pace.v
  if not seat then
    local tag = max(v, min(pace.last, v + pace.waiting)) + 1
    pace.last, pace.waiting = tag + count - 1, pace.waiting + count
    return tag
  end
  local list = seat.turns
  local at = turn_at(list, priority) or #list + 1
  local last, waiting = list[at + 1] or 0, list[at + 2] or 0
  local tag = max(v, min(last, v + waiting)) + 1
  list[at], list[at + 1], list[at + 2] = priority, tag + count - 1, waiting + count
  return tag
end

-- Count a run of that kind into the ready order, or, with `ready` 0, into its user's parked set; return its rank.
function turns.enter(book, labels, kind, ready)
  local priority = labels.priority
  local pace = pace_of(book, priority)
  pace.ready = pace.ready + (ready or 1)
  local tag = pace.v + 1
  if kind == FRESH then
    tag = first_tag(pace, labels.user and lanes.seat(book, labels.user), priority, 1)
  end
  return tag - HEAD_START * priority
end

-- Count so many first-time runs without a user into the ready order; return the first one's rank. The others follow it.
function turns.enter_fresh(book, priority, count)
  local pace = pace_of(book, priority)
  pace.ready = pace.ready + count
  return first_tag(pace, nil, priority, count) - HEAD_START * priority
end

-- Count a run of that kind out of the ready order, for whatever reason.
function turns.leave(book, labels, kind)
  local pace = book.paces[labels.priority]
  pace.ready = pace.ready - 1
  if has(kind, BACK) and labels.user then
    lanes.seat(book, labels.user).out = 0
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

-- Count a first-time run as waiting no more.
function turns.wait_no_more(book, labels)
  if not labels.user then
    local pace = book.paces[labels.priority]
    pace.waiting = pace.waiting - 1
    if pace.waiting == 0 then
      pace.last = 0
    end
    return
  end
  local list = lanes.seat(book, labels.user).turns
  local at = turn_at(list, labels.priority)
  if at then
    list[at + 2] = list[at + 2] - 1
  end
end

-- Count a run of that kind as active; it had that rank in the ready order.
function turns.start(book, labels, kind, rank)
  local pace, tag = book.paces[labels.priority], rank + HEAD_START * labels.priority
  pace.ready = pace.ready - 1
  pace.v = max(pace.v, tag)
  book.active, book.pending = book.active + 1, book.pending - 1
  if not has(kind, AGAIN) then
    turns.wait_no_more(book, labels)
  end
  if labels.user then
    local seat = lanes.seat(book, labels.user)
    seat.active = seat.active + 1
    if has(kind, BACK) then
      seat.out = 0
    end
  end
end

-- Return whether its user keeps a run of that kind from starting: at the cap, or with runs that were parked before it.
function turns.must_park(book, labels, kind)
  if not labels.user then
    return false
  end
  local cap, seat = lanes.cap(book, labels.user), lanes.seat(book, labels.user)
  if cap and seat.active >= cap then
    return true
  end
  return kind == FRESH and (seat.parked > 0 or seat.out >= OUT + labels.priority)
end
