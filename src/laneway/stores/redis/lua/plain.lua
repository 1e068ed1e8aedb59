-- needs: base, records, runs, lanes
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

-- The last three digits of numbers: in a thousand of them only these differ.
local thousand = setmetatable({}, {__index = function(known, last)
  local text = string.format('%03d', last)
  known[last] = text
  return text
end})

-- Return what stands before those in the name of a number, as a field of hashes and as a member of sorted sets.
local function before_last(number)
  local field, member = base.digits(number), base.member(number)
  return sub(field, 1, -4), sub(member, 1, -4)
end

local INLINE = records.INLINE
local NO_RESULT, ELSEWHERE = pack(false), pack(false) .. pack(false)

local OFTEN = 64  -- runs, of which the first sees to it that ids are found quickly, however few there are

local function write(stretches, number)
  local written, numbers, long, at = {}, {}, {}, 1
  local ready, heads, is_nth, front_of_field, front_of_member = {}, records.heads, number % OFTEN == 0, nil, nil
  for i = 1, #stretches do
    local ids, args, task, lane, user, priority = unpack(stretches[i], 1, 6)
    local front, times = records.fresh(task, lane, user or false, priority)
    local betweens, id_size, front_of_id = {}, nil, nil  -- what stands between id and arguments, by their length
    local places = ready[lane] or {}
    ready[lane] = places
    local place, rank = #places + 1, lanes.enter_fresh(lanes.get(lane), user, priority, #ids)
    for j = 1, #ids do
      local id, given = ids[j], args[j]
      local last = (number + j) % 1000
      if last == 0 or not front_of_field then
        front_of_field, front_of_member = before_last(number + j)
      end
      local digits, size = thousand[last], #given
      local field, member = front_of_field .. digits, front_of_member .. digits
      if number + j < 1000 then
        field = base.digits(number + j)
      end
      local between, tail = betweens[size], NO_RESULT
      if size > INLINE then
        long[#long + 1], long[#long + 2] = field, given
        between, given, tail = times, '', ELSEWHERE
      elseif not between then
        between = times .. heads[size]
        betweens[size] = between
      end
      if #id ~= id_size then
        id_size = #id
        front_of_id = front .. heads[id_size]
      end
      written[at], written[at + 1] = field, front_of_id .. id .. between .. given .. tail
      numbers[at], numbers[at + 1] = id, field
      places[place], places[place + 1] = rank, member
      at, place, rank = at + 2, place + 2, rank + 1
    end
    number = number + #ids
  end
  if is_nth and at > 1 then
    base.quicken(numbers)
  end
  runs.keep_long(long)
  base.at_this_end(function()
    base.send('HSET', PREFIX .. 'runs', written)
    base.send('HSET', PREFIX .. 'ids', numbers)
    for lane, places in pairs(ready) do
      base.send('ZADD', PREFIX .. 'ready:' .. lane, places)
    end
  end)
end

-- Accept a batch that is all stretches; return of each how many were before its first. Returns nil, and has done
-- nothing, if one of them has to go the other way. The runs cannot be read in this script.
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
  local ids = ids_of(stretches)
  if is_known('ids', ids) or (not base.is_absent('takers') and is_known('takers', ids))
    or runs.last() + #ids > LAST then
    return nil
  end
  local ahead = {}
  for i = 1, #stretches do
    local book, count = lanes.get(stretches[i][4]), #stretches[i][1]
    ahead[i] = book.pending
    book.pending = book.pending + count
  end
  write(stretches, runs.count_in(#ids))
  return ahead
end
