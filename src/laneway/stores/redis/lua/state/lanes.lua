-- needs: runtime/base, runtime/cached_hash
-- Lanes: the settings and counts of each, and the seats of its users. rules/queue/turns.lua orders runs by them.
--
-- Hash `lanes`: name -> settings and counts. Set `working`: the lanes whose ready order is not empty. Hash
-- `seats:<lane>`: user -> {active, parked, out, turns}, all that a claim needs to know of a user. `turns` are triples
-- of priority, last tag and how many runs wait; where none waits, the tag means nothing. Hash `caps:<lane>`: user ->
-- cap, a plain number, of users whose cap is not the lane's; 0 while a user is paused.

local lanes = {}

local function write(book)
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
  local paces, is_working = {}, false
  for _, pace in ipairs(packed[9]) do
    paces[pace[1]] = {v = pace[2], ready = pace[3], last = pace[4] or 0, waiting = pace[5] or 0}
    is_working = is_working or pace[3] > 0
  end
  return {
    name = name, limit = packed[1], per_user = packed[2], worker_limit = packed[3], max_pending = packed[4],
    when_full = packed[5], paused = packed[6], active = packed[7], pending = packed[8], paces = paces,
    was_working = is_working,  -- as set `working` has it
  }
end

local cache = cached_hash.at('lanes', nil, write, read)

function lanes.find(name)
  return cache:find(name)
end

function lanes.get(name)
  return cache.values[name] or cache:find(name) or error('lane ' .. name .. ' is gone')
end

function lanes.put(name, book)
  cache:put(name, book)
end

function lanes.all()
  return cache:all()
end

-- Return the lanes whose ready order is not empty, by name.
function lanes.working()
  local found = {}
  for name in pairs(base.set('working')) do
    found[name] = lanes.get(name)
  end
  for name, book in pairs(cache.values) do
    found[name] = book and lanes.ready(book) > 0 and book or nil
  end
  return found
end

base.at_end(function()
  for name, book in pairs(cache.values) do
    local is_working = book and lanes.ready(book) > 0
    if book and is_working ~= book.was_working then
      call(is_working and 'SADD' or 'SREM', PREFIX .. 'working', name)
    end
  end
end)

-- Return how many runs are in the ready order of a lane.
function lanes.ready(book)
  local ready = 0
  for _, pace in pairs(book.paces) do
    ready = ready + pace.ready
  end
  return ready
end

-- Return how many more runs of a lane may start.
function lanes.room(book)
  return book.paused and 0 or book.limit - book.active
end

-- Seats -----------------------------------------------------------------------------------------------------------

local function make_seat()
  return {active = 0, parked = 0, out = 0, turns = {}}
end

-- Drop the turns for which no run waits. Most are kept from one wait to the next.
function lanes.drop_turns(seat)
  local kept = {}
  for at = 1, #seat.turns, 3 do
    if seat.turns[at + 2] > 0 then
      local to = #kept + 1
      kept[to], kept[to + 1], kept[to + 2] = unpack(seat.turns, at, at + 2)
    end
  end
  seat.turns = kept
end

local MOST_TURNS = 4  -- per user, before those for which no run waits are dropped

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

-- Return the cache of the seats in a lane.
function lanes.seats(book)
  local seats = book.seats_
  if not seats then
    seats = cached_hash.of_family('seats:' .. book.name, make_seat, write_seat, read_seat)
    book.seats_ = seats
  end
  return seats
end

function lanes.seat(book, user)
  return lanes.seats(book):get(user)
end

-- Caps ------------------------------------------------------------------------------------------------------------

local caps = {}  -- by lane: false if all users have the lane's cap, else the known ones by user

base.at_begin(function()
  caps = {}
end)

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

-- Set a user's own cap in a lane; false means the lane's.
function lanes.set_cap(book, user, cap)
  if not caps[book.name] then
    caps[book.name] = {}
  end
  caps[book.name][user] = cap
  base.set_text('caps:' .. book.name, user, cap and base.digits(cap))
end
