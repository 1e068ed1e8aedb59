-- needs: base, ledgers
-- gives: lanes, turn_field, has, with, without, OUT, FRESH, AGAIN, BACK, ASIDE, STILL, BROKEN, BROKEN_USER
-- The order of one lane: users take turns, priority is a head start, nobody starves. This restates core/turns.py, where
-- the rules are explained; names are the same.
--
-- Hash `lanes`: name -> what holds of it and its counts. Set `working`: the lanes that have something in the ready
-- order. Hashes `seats:<lane>` by user and `turns:<lane>` by priority and user; `caps:<lane>` by user, as plain
-- numbers: of users who have another cap than the lane's, 0 for one who is paused.

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
  return {active = 0, parked = 0, out = 0}
end

local function write_seat(seat)
  if seat.active == 0 and seat.parked == 0 and seat.out == 0 then
    return nil
  end
  return '\147' .. pack(seat.active, seat.parked, seat.out)
end

local function read_seat(text)
  local _, active, parked, out = cmsgpack.unpack_limit(text, 3, 1)
  return {active = active, parked = parked, out = out}
end

function lanes.seats(book)
  local seats = book.seats_
  if not seats then
    seats = ledgers.one('seats:' .. book.name, make_seat)
    seats.to_text, seats.of_text, book.seats_ = write_seat, read_seat, seats
  end
  return seats
end

function lanes.seat(book, user)
  local seats = book.seats_ or lanes.seats(book)
  return seats.kept[user] or seats:get(user)
end

local shown = {}  -- priorities as texts: there are few

local function turn_field(user, priority)
  local text = shown[priority]
  if not text then
    text = priority .. ':'
    shown[priority] = text
  end
  return text .. user
end

local function make_turn()
  return {last = 0, waiting = 0}
end

local function write_turn(turn)
  return '\146' .. pack(turn.last, turn.waiting)
end

local function read_turn(text)
  local _, last, waiting = cmsgpack.unpack_limit(text, 2, 1)
  return {last = last, waiting = waiting}
end

function lanes.turns(book)
  local turns = book.turns_
  if not turns then
    turns = ledgers.one('turns:' .. book.name, make_turn)
    turns.to_text, turns.of_text, book.turns_ = write_turn, read_turn, turns
  end
  return turns
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
    return book.per_user
  end
  if known[user] == nil then
    known[user] = tonumber(call('HGET', PREFIX .. 'caps:' .. book.name, user) or nil) or false
  end
  return known[user] or book.per_user
end

-- Set a user's own cap in a lane, as it is judged now; false takes it back.
function lanes.set_cap(book, user, cap)
  if not caps[book.name] then
    caps[book.name] = {}
  end
  caps[book.name][user] = cap
  base.set_text('caps:' .. book.name, user, cap and base.digits(cap))
end

local function raise(book, pace)
  local least, most = nil, 0
  for _, other in pairs(book.paces) do
    if other.ready > 0 and (not least or other.v < least) then
      least = other.v
    end
    most = math.max(most, other.v)
  end
  pace.v = math.max(pace.v, least or most)
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

-- Return the turn of whoever a run is of, to be changed. That of nobody is in the pace of its priority.
function lanes.turn(book, of)
  if not of.user then
    return book.paces[of.priority]
  end
  local turns, field = book.turns_ or lanes.turns(book), turn_field(of.user, of.priority)
  return turns.kept[field] or turns:get(field)
end

local function first_tag(book, run, v)
  local turn = lanes.turn(book, run)
  local tag = math.max(v, math.min(turn.last, v + turn.waiting)) + 1
  turn.last = tag
  turn.waiting = turn.waiting + 1
  return tag
end

-- Give the run its place in the ready order: sets `run.rank`.
function lanes.enter(book, run)
  local pace = pace_of(book, run.priority)
  pace.ready = pace.ready + 1
  local tag = run.kind == FRESH and first_tag(book, run, pace.v) or pace.v + 1
  run.rank = tag - HEAD_START * run.priority
end

-- Give so many first-time runs of a user their places in the ready order; return the first one's rank, from which on
-- they are consecutive: a turn that was just taken is never ahead of those that wait.
function lanes.enter_fresh(book, user, priority, count)
  local pace = pace_of(book, priority)
  local turn, v = user and lanes.turns(book):get(turn_field(user, priority)) or pace, pace.v
  local tag = math.max(v, math.min(turn.last, v + turn.waiting)) + 1
  turn.last, turn.waiting, pace.ready = tag + count - 1, turn.waiting + count, pace.ready + count
  return tag - HEAD_START * priority
end

-- Give a first-time run its place in its user's parked set: sets `run.rank`.
function lanes.enter_parked(book, run)
  local pace = pace_of(book, run.priority)
  run.rank = first_tag(book, run, pace.v) - HEAD_START * run.priority
end

-- Take the run out of the ready order, for whatever reason.
function lanes.leave(book, run)
  local pace = book.paces[run.priority]
  pace.ready = pace.ready - 1
  if has(run.kind, BACK) and run.user then
    lanes.seat(book, run.user).out = 0
  end
end

function lanes.set_aside(book, run)
  lanes.leave(book, run)
  run.kind = with(without(run.kind, BACK), ASIDE)
end

function lanes.set_back(book, run)
  run.kind = without(without(without(run.kind, ASIDE), BROKEN), BROKEN_USER)
  local pace = book.paces[run.priority]
  pace.ready = pace.ready + 1
end

-- Move so many runs that are alike from the ready order to active: `of` tells whose they are, `rank` is the last's.
function lanes.start(book, of, kind, rank, count)
  local priority, user = of.priority, of.user
  local pace = book.paces[priority]
  pace.ready = pace.ready - count
  pace.v = math.max(pace.v, rank + HEAD_START * priority)
  book.active = book.active + count
  book.pending = book.pending - count
  if not has(kind, AGAIN) then
    lanes.wait_no_more(book, of, count)
  end
  if user then
    local seat = lanes.seat(book, user)
    seat.active = seat.active + count
    if has(kind, BACK) then
      seat.out = 0
    end
  end
end

-- Free the lane's and the user's slots of so many runs that are executed no more; `of` tells whose they are.
function lanes.stop(book, of, count)
  book.active = book.active - count
  if of.user then
    local seat = lanes.seat(book, of.user)
    seat.active = seat.active - count
  end
end

-- Count so many first-time runs as not waiting any more.
function lanes.wait_no_more(book, of, count)
  local turn = lanes.turn(book, of)
  turn.waiting = turn.waiting - count
  if turn.waiting == 0 then
    turn.last = 0
    if of.user then
      lanes.turns(book):drop(turn_field(of.user, of.priority))
    end
  end
end

-- Tell whether its user keeps a run from starting: at the cap, or with runs that were parked before it.
function lanes.must_park(book, of, kind)
  if not of.user then
    return false
  end
  local seat, cap = lanes.seat(book, of.user), lanes.cap(book, of.user)
  if cap and seat.active >= cap then
    return true
  end
  return kind == FRESH and (seat.parked > 0 or seat.out >= OUT + of.priority)
end
