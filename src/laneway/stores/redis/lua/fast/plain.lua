-- needs: runtime/base, state/records, state/runs, state/making, state/lanes, rules/turns, rules/shelves, rules/waking
-- The straight way in, for submissions that ask for nothing but to be run: they are due at once, in no session, without
-- a key or ties. What acceptance.lua would write of each is known beforehand but for its id, number, user and rank.
--
-- They come in stretches, {ids, arguments, task, lane, user, priority}: neighbours that differ in nothing else. No id is
-- in a batch twice.

local plain = {}
local LAST = 2147483647  -- the greatest number that may be written by '%d' wherever a server runs

-- Read all seats at once that the stretches need.
local function load(stretches)
  local users = {}
  for i = 1, #stretches do
    local lane, user = stretches[i][4], stretches[i][5]
    if user then
      users[lane] = users[lane] or {}
      table.insert(users[lane], user)
    end
  end
  for lane, names in pairs(users) do
    local book = lanes.find(lane)
    if book then
      lanes.seats(book):load(names)
    end
  end
end

-- Tell whether nothing keeps the stretch from going in as it is.
local function is_free(stretch)
  local book, user = lanes.find(stretch[4]), stretch[5]
  local seat = book and user and lanes.seats(book):find(user)
  return book and not book.max_pending and not base.set('disabled')[stretch[3]] and not (seat and seat.parked > 0)
end

-- Return the ids of all stretches.
local function ids_of(stretches)
  if #stretches == 1 then
    return stretches[1][1]
  end
  local ids = {}
  for i = 1, #stretches do
    local list = stretches[i][1]
    for j = 1, #list do
      ids[#ids + 1] = list[j]
    end
  end
  return ids
end

local function is_known(key, ids)
  for first = 1, #ids, MOST_MOVES do
    local found = call('HMGET', PREFIX .. key, unpack(ids, first, min(first + MOST_MOVES - 1, #ids)))
    for i = 1, #found do
      if found[i] then
        return true
      end
    end
  end
  return false
end

local PIECE = 4000  -- values in one command that sets ids: Lua's stack has an end
local knows_hsetex = IN_LIBRARY  -- until the server says that it does not, or does not let us (Valkey 9, Redis 8)

local function forget_ids(numbers, count)
  for i = 1, count, 2 do
    call('HDEL', PREFIX .. 'ids', numbers[i])
  end
end

-- Write which numbers these ids stand for, in turns, if none of them is known. Tell if so; nil if the server cannot.
-- The one thing that is written before a script ends, and taken back if it fails (takingback.lua).
local function add_at_once(numbers)
  for first = 1, #numbers, PIECE do
    local last = min(first + PIECE - 1, #numbers)
    local done = redis.pcall('HSETEX', PREFIX .. 'ids', 'FNX', 'FIELDS', (last - first + 1) / 2, unpack(numbers, first, last))
    if done ~= 1 then
      forget_ids(numbers, first - 1)
      if done == 0 then
        return false
      end
      knows_hsetex = false
      return nil
    end
  end
  return true
end

-- Let these ids stand for numbers, of which both are given in turns; tell whether none of them was known.
local function add_ids(ids, numbers)
  local added
  if knows_hsetex then
    added = add_at_once(numbers)
  end
  if added == nil and not is_known('ids', ids) then
    added = true
    base.at_this_end(function()
      base.send('HSET', PREFIX .. 'ids', numbers)
    end)
  end
  return added
end

-- The last three digits of numbers: in a thousand of them only these differ.
local thousand = setmetatable({}, {__index = function(known, last)
  local text = string.format('%03d', last)
  known[last] = text
  return text
end})

local OFTEN = 64  -- runs, of which the first sees to it that ids are found quickly, however few there are

-- Return the ids of runs that come behind a number, each with its own, as text, and what sorted sets name them by.
local function numbered(ids, before)
  local numbers, members, count, at = {}, {}, #ids, 1
  local first = 1
  while first <= count do
    local block = math.floor((before + first) / 1000)
    local zero, last = before - 1000 * block, min(count, 1000 * block + 999 - before)
    local front, front_of_member = base.digits(block), sub(base.member(1000 * block), 1, -4)
    for i = first, last do
      local digits = thousand[zero + i]
      numbers[at], numbers[at + 1], members[i] = ids[i], front .. digits, front_of_member .. digits
      at = at + 2
    end
    for i = first, block == 0 and last or 0 do
      numbers[2 * i] = base.digits(before + i)
    end
    first = last + 1
  end
  if count > 0 and before % OFTEN == 0 then
    base.quicken(numbers)
  end
  return numbers, members
end

local INLINE = records.INLINE
local NO_RESULT, ELSEWHERE = pack(false), pack(false) .. pack(false)

-- Let records and ranks, as `write` has them, be known to this call, and so to a step that it may do for a worker.
local function put(written, ready)
  for i = 1, #written, 2 do
    runs.bring(written[i], written[i + 1])
  end
  for lane, places in pairs(ready) do
    local book = lanes.get(lane)
    for i = 1, #places, 2 do
      shelves.put_ready(book, places[i + 1] + 0, FRESH, places[i])
    end
  end
end

-- Write the runs, or, if they are `known` to this call, put them where it finds them.
local function write(stretches, numbers, members, known)
  local written, long, at, nth, ready, heads = {}, {}, 1, 1, {}, records.heads
  for i = 1, #stretches do
    local ids, args, task, lane, user, priority = unpack(stretches[i], 1, 6)
    local front, times = records.fresh(task, lane, user or false, priority)
    local betweens, id_size, front_of_id = {}, nil, nil  -- what stands between id and arguments, by their length
    local places = ready[lane] or {}
    ready[lane] = places
    local place, rank = #places + 1, turns.enter_fresh(lanes.get(lane), user, priority, #ids)
    for j = 1, #ids do
      local id, given, field = ids[j], args[j], numbers[at + 1]
      local between, tail = betweens[#given], NO_RESULT
      if not between then
        if #given > INLINE then
          long[#long + 1], long[#long + 2] = field, given
          between, given, tail = times, '', ELSEWHERE
        else
          between = times .. heads[#given]
          betweens[#given] = between
        end
      end
      if #id ~= id_size then
        id_size = #id
        front_of_id = front .. heads[id_size]
      end
      written[at], written[at + 1] = field, front_of_id .. id .. between .. given .. tail
      places[place], places[place + 1] = rank, members[nth]
      at, nth, place, rank = at + 2, nth + 1, place + 2, rank + 1
    end
  end
  making.keep_long(long)
  if known then
    put(written, ready)
    return
  end
  base.is_blind = true
  base.at_this_end(function()
    base.send('HSET', PREFIX .. 'runs', written)
    for lane, places in pairs(ready) do
      base.send('ZADD', PREFIX .. 'ready:' .. lane, places)
    end
  end)
end

local FEW = 8  -- runs that this call knows if there is somebody to start them at once

-- Let a run that comes alone, of no user, be started at once for who has lent a step; else it is put where others are.
local function offer_alone(stretch, numbers, members)
  waking.newcomer = {
    id = stretch[1][1], args = stretch[2][1], task = stretch[3], lane = stretch[4], priority = stretch[6],
    field = numbers[2],
    put = function()
      write({stretch}, numbers, members, true)
    end,
  }
end

-- Accept a batch that is all stretches; return of each how many were before its first. Returns nil, and has done
-- nothing, if one of them has to go the other way. If they are many, they cannot be read in this script.
function plain.accept(stretches)
  for i = 1, #stretches do
    if type(stretches[i][1]) ~= 'table' then
      return nil
    end
  end
  load(stretches)
  for i = 1, #stretches do
    if not is_free(stretches[i]) then
      return nil
    end
  end
  local ids, before = ids_of(stretches), making.last()
  local known = #ids <= FEW and waking.may_lend()
  if (not base.is_absent('takers') and is_known('takers', ids)) or before + #ids > LAST then
    return nil
  end
  local numbers, members = numbered(ids, before)
  if not add_ids(ids, numbers) then
    return nil
  end
  local ahead = {}
  for i = 1, #stretches do
    local book, count = lanes.get(stretches[i][4]), #stretches[i][1]
    ahead[i] = book.pending
    book.pending = book.pending + count
  end
  making.count_in(#ids)
  if known and #ids == 1 and not stretches[1][5] and #stretches[1][2][1] <= INLINE then
    offer_alone(stretches[1], numbers, members)
  else
    write(stretches, numbers, members, known)
  end
  return ahead
end
