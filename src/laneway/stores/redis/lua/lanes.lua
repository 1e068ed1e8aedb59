-- needs: base, ledgers, records
-- gives: lanes, HEAD_START, has, with, without, OUT, FRESH, AGAIN, BACK, ASIDE, STILL, BROKEN, BROKEN_USER
-- The order of one lane: users take turns, priority is a head start, nobody starves. This restates core/turns.py, where
-- the rules are explained; names are the same.
--
-- Hash `lanes`: name -> what holds of it and its counts. Set `working`: the lanes that have something in the ready
-- order. Hash `seats:<lane>`: user -> {active, parked, out, line, turns}, all that a claim wants to know of a user: the
-- line is that of the runs that are parked behind the user, if they are few (shelves.lua); `turns` are priority, last tag
-- and how many wait, the next priority, as long as any wait. Hash `caps:<lane>` by user, as plain numbers: of users who
-- have another cap than the lane's, 0 for one who is paused.

local lanes = {}

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

local function written(book)
  local paces = {}
  for priority, pace in pairs(book.paces) do
    paces[#paces + 1] = {priority, pace.v, pace.ready, pace.last, pace.waiting}
  end
  table.sort(paces, function(one, other) return one[1] < other[1] end)
  return {
    book.limit, book.per_user, book.worker_limit, book.max_pending, book.when_full, book.paused,
    book.active, book.pending, paces,
  }
end

local function read(packed, name)
  local paces, works = {}, false
  for _, pace in ipairs(packed[9]) do
    paces[pace[1]] = {v = pace[2], ready = pace[3], last = pace[4] or 0, waiting = pace[5] or 0}
    works = works or pace[3] > 0
  end
  return {
    name = name, limit = packed[1], per_user = packed[2], worker_limit = packed[3], max_pending = packed[4],
    when_full = packed[5], paused = packed[6], active = packed[7], pending = packed[8], paces = paces,
    worked = works,  -- as `working` has it
  }
end

local kept_lanes = ledgers.at('lanes', nil, written, read)
local caps = {}  -- by lane: false if nobody has a cap of their own there, else what is known of users

base.at_begin(function()
  caps = {}
end)

function lanes.find(name)
  return kept_lanes:find(name)
end

function lanes.get(name)
  return kept_lanes.kept[name] or kept_lanes:find(name) or error('lane ' .. name .. ' is gone')
end

function lanes.put(name, book)
  kept_lanes:put(name, book)
end

function lanes.all()
  return kept_lanes:all()
end

-- Return the lanes that have something in the ready order, by name.
function lanes.working()
  local found = {}
  for name in pairs(base.set('working')) do
    found[name] = lanes.get(name)
  end
  for name, book in pairs(kept_lanes.kept) do
    found[name] = book and lanes.ready(book) > 0 and book or nil
  end
  return found
end

base.at_end(function()
  for name, book in pairs(kept_lanes.kept) do
    local works = book and lanes.ready(book) > 0
    if book and works ~= book.worked then
      call(works and 'SADD' or 'SREM', PREFIX .. 'working', name)
    end
  end
end)

local function make_seat()
  return {active = 0, parked = 0, out = 0, line = false, turns = {}}
end

local ints = records.ints

local function write_seat(seat)
  if seat.active == 0 and seat.parked == 0 and seat.out == 0 and #seat.turns == 0 then
    return nil
  end
  return '\149' .. ints[seat.active] .. ints[seat.parked] .. ints[seat.out] .. pack(seat.line, seat.turns)
end

local function read_seat(text)
  local _, active, parked, out, line, turns = unpack_limit(text, 5, 1)
  return {active = active, parked = parked, out = out, line = line, turns = turns}
end

function lanes.seats(book)
  local seats = book.seats_
  if not seats then
    seats = ledgers.one('seats:' .. book.name, make_seat)
    seats.to_text, seats.of_text, book.seats_ = write_seat, read_seat, seats
    seats:remember()
  end
  return seats
end

function lanes.seat(book, user)
  local seats = book.seats_ or lanes.seats(book)
  return seats.kept[user] or seats:get(user)
end

-- Return where in a list of turns that of a priority stands; nil if there is none.
local function turn_at(turns, priority)
  for at = 1, #turns, 3 do
    if turns[at] == priority then
      return at
    end
  end
  return nil
end

-- Set somebody's turn, given without a name for nobody's: it is in the pace of its priority.
function lanes.set_turn(book, user, priority, last, waiting)
  if not user then
    local pace = book.paces[priority]
    pace.last, pace.waiting = last, waiting
    return
  end
  local turns = lanes.seat(book, user).turns
  local at = turn_at(turns, priority) or #turns + 1
  turns[at], turns[at + 1], turns[at + 2] = priority, last, waiting
end

function lanes.ready(book)
  local ready = 0
  for _, pace in pairs(book.paces) do
    ready = ready + pace.ready
  end
  return ready
end

function lanes.room(book)
  return book.paused and 0 or book.limit - book.active
end

function lanes.cap(book, user)
  local known = caps[book.name]
  if known == nil then
    known = call('EXISTS', PREFIX .. 'caps:' .. book.name) == 1 and {} or false
    caps[book.name] = known
  end
  if not known then
    book.uncapped = true  -- nobody has a cap of their own: who is in a hurry need not ask
    return book.per_user
  end
  if known[user] == nil then
    known[user] = tonumber(call('HGET', PREFIX .. 'caps:' .. book.name, user) or nil) or false
  end
  return known[user] or book.per_user
end

-- Return the cap that all users of a lane have; nil if some have their own, false if there is none.
function lanes.common_cap(book)
  lanes.cap(book, '')
  if book.uncapped then
    return book.per_user
  end
  return nil
end

-- Set a user's own cap in a lane, as it is judged now; false takes it back.
function lanes.set_cap(book, user, cap)
  if not caps[book.name] then
    caps[book.name] = {}
  end
  caps[book.name][user], book.uncapped = cap, nil
  base.set_text('caps:' .. book.name, user, cap and base.digits(cap))
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

-- Count one more first-time run as waiting, for who counts anew.
function lanes.count_waiting(book, user, priority)
  if not user then
    local pace = book.paces[priority]
    pace.waiting = pace.waiting + 1
    return
  end
  local turns = lanes.seat(book, user).turns
  local at = turn_at(turns, priority) or #turns + 1
  turns[at], turns[at + 1], turns[at + 2] = priority, turns[at + 1] or 0, (turns[at + 2] or 0) + 1
end

-- Forget the turns for which nobody waits.
function lanes.drop_turns(seat)
  local kept = {}
  for at = 1, #seat.turns, 3 do
    if seat.turns[at + 2] > 0 then
      local next_one = #kept + 1
      kept[next_one], kept[next_one + 1], kept[next_one + 2] = unpack(seat.turns, at, at + 2)
    end
  end
  seat.turns = kept
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

lanes.pace = pace_of

-- Give so many first-time runs, which stand behind one another, their tags; return the first one's. A turn that was just
-- taken is never ahead of those that wait. `seat` is their user's, if they have one.
local function first_tag(pace, seat, priority, count)
  local v = pace.v
  if not seat then
    local tag = max(v, min(pace.last, v + pace.waiting)) + 1
    pace.last, pace.waiting = tag + count - 1, pace.waiting + count
    return tag
  end
  local turns = seat.turns
  local at = turn_at(turns, priority)
  if not at then
    at = #turns + 1
    turns[at], turns[at + 1], turns[at + 2] = priority, v + count, count
    return v + 1
  end
  local last, waiting, tag = turns[at + 1], turns[at + 2], v
  if last > v then
    tag = last < v + waiting and last or v + waiting
  end
  turns[at + 1], turns[at + 2] = tag + count, waiting + count
  return tag + 1
end

-- Give a run of that kind its place in the ready order; return its rank. `seat` is its user's, if it has one.
function lanes.enter(book, priority, kind, seat)
  local pace = pace_of(book, priority)
  pace.ready = pace.ready + 1
  local tag = kind == FRESH and first_tag(pace, seat, priority, 1) or pace.v + 1
  return tag - HEAD_START * priority
end

-- Give so many first-time runs of a user their places in the ready order; return the first one's rank, from which on
-- they are consecutive.
function lanes.enter_fresh(book, user, priority, count)
  local pace = pace_of(book, priority)
  pace.ready = pace.ready + count
  return first_tag(pace, user and lanes.seat(book, user), priority, count) - HEAD_START * priority
end

-- Give a first-time run its place in its user's parked set; return its rank.
function lanes.enter_parked(book, priority, seat)
  local pace, turns = book.paces[priority], seat.turns
  if not pace or pace.ready == 0 then
    pace = pace_of(book, priority)
  end
  for at = 1, #turns, 3 do
    if turns[at] == priority then
      local tag, last, waiting = pace.v, turns[at + 1], turns[at + 2]
      if last > tag then
        tag = last < tag + waiting and last or tag + waiting
      end
      turns[at + 1], turns[at + 2] = tag + 1, waiting + 1
      return tag + 1 - HEAD_START * priority
    end
  end
  return first_tag(pace, seat, priority, 1) - HEAD_START * priority
end

-- Take a run out of the ready order, for whatever reason: one of that kind, `of` tells whose it is.
function lanes.leave(book, of, kind)
  local pace = book.paces[of.priority]
  pace.ready = pace.ready - 1
  if has(kind, BACK) and of.user then
    lanes.seat(book, of.user).out = 0
  end
end

function lanes.set_aside(book, run)
  lanes.leave(book, run, run.kind)
  run.kind = with(without(run.kind, BACK), ASIDE)
end

function lanes.set_back(book, run)
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
  local turns = seat.turns
  local size = #turns
  for at = 1, size, 3 do
    if turns[at] == priority then
      local waiting = turns[at + 2] - count
      if waiting > 0 then
        turns[at + 2] = waiting
        return
      elseif at < size - 2 then  -- the last of them takes its place
        turns[at], turns[at + 1], turns[at + 2] = turns[size - 2], turns[size - 1], turns[size]
      end
      turns[size - 2], turns[size - 1], turns[size] = nil, nil, nil
      return
    end
  end
end

lanes.wait_no_more = wait_no_more

-- Move so many runs that are alike from the ready order to active: they have that priority and their user that seat, if
-- they have one. `rank` is the last's.
function lanes.start(book, priority, seat, kind, rank, count)
  local pace, tag = book.paces[priority], rank + HEAD_START * priority
  pace.ready = pace.ready - count
  if tag > pace.v then
    pace.v = tag
  end
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

-- Do the same for one run of a user.
function lanes.start_one(book, priority, seat, kind, rank)
  local pace, tag = book.paces[priority], rank + HEAD_START * priority
  pace.ready = pace.ready - 1
  if tag > pace.v then
    pace.v = tag
  end
  book.active, book.pending, seat.active = book.active + 1, book.pending - 1, seat.active + 1
  if kind % 4 >= BACK then
    seat.out = 0
  end
  if kind % 2 < AGAIN then
    local turns = seat.turns
    for at = 1, #turns, 3 do
      if turns[at] == priority and turns[at + 2] > 1 then
        turns[at + 2] = turns[at + 2] - 1
        return
      end
    end
    wait_no_more(book, priority, seat, 1)
  end
end

-- Tell whether its user keeps a run of that priority and kind from starting: at the cap, or with runs that were parked
-- before it.
function lanes.must_park(book, user, seat, priority, kind)
  local cap = book.uncapped and book.per_user or lanes.cap(book, user)
  if cap and seat.active >= cap then
    return true
  end
  return kind == FRESH and (seat.parked > 0 or seat.out >= OUT + priority)
end
