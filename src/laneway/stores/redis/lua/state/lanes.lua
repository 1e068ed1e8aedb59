-- needs: runtime/base, runtime/cached_hash
-- Lanes: what holds of each, its counts, and the seats of its users. turns.lua orders its runs by them.
--
-- Hash `lanes`: name -> what holds of it and its counts. Set `working`: the lanes that have something in the ready
-- order. Hash `seats:<lane>`: user -> {active, parked, out, turns}, all that a claim wants to know of a user; `turns` are
-- priority, last tag and how many wait, the next priority; where none waits, the tag says nothing. Hash `caps:<lane>` by
-- user, as plain numbers: of users who have another cap than the lane's, 0 for one who is paused.

local lanes = {}

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

local kept_lanes = cached_hash.at('lanes', nil, written, read)
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
  return {active = 0, parked = 0, out = 0, turns = {}}
end

-- Forget the turns for which nobody waits: they say nothing. Others are kept from one wait to the next.
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

local MOST_TURNS = 4  -- before those for which nobody waits are dropped
local function write_seat(seat)
  local is_empty = seat.active == 0 and seat.parked == 0 and seat.out == 0
  if is_empty or #seat.turns > 3 * MOST_TURNS then
    lanes.drop_turns(seat)
  end
  if is_empty and #seat.turns == 0 then
    return nil
  end
  return {seat.active, seat.parked, seat.out, seat.turns}
end

local function read_seat(packed)
  return {active = packed[1], parked = packed[2], out = packed[3], turns = packed[4]}
end

function lanes.seats(book)
  local seats = book.seats_
  if not seats then
    seats = cached_hash.one('seats:' .. book.name, make_seat, write_seat, read_seat)
    book.seats_ = seats
  end
  return seats
end

function lanes.seat(book, user)
  return lanes.seats(book):get(user)
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
