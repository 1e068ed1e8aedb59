-- needs: base, records, runs, lanes
-- The straight way in, for submissions that ask for nothing but to be run: they are due at once, in no session, without
-- a key or ties. What acceptance.lua would write of each is known beforehand but for its id, number, user and rank.
--
-- They come in stretches, {{id, args, id, args, ...}, task, lane, user, priority}: neighbours that differ in nothing
-- else.

local plain = {}
local LAST = 2147483647  -- the greatest number that may be written by '%d' wherever a server runs

-- Read all turns and seats at once that the stretches need.
local function load(stretches)
  local turns, users = {}, {}
  for i = 1, #stretches do
    local _, _, lane, user, priority = unpack(stretches[i], 1, 5)
    turns[lane], users[lane] = turns[lane] or {}, users[lane] or {}
    table.insert(turns[lane], turn_field(user, priority))
    if user then
      table.insert(users[lane], user)
    end
  end
  for lane, fields in pairs(turns) do
    local book = lanes.find(lane)
    if book then
      lanes.turns(book):load(fields)
      lanes.seats(book):load(users[lane])
    end
  end
end

-- Tell whether nothing keeps the stretch from going in as it is.
local function is_free(stretch)
  local book, user = lanes.find(stretch[3]), stretch[4]
  local seat = book and user and lanes.seats(book):find(user)
  return book and not book.max_pending and not base.set('disabled')[stretch[2]] and not (seat and seat.parked > 0)
end

-- Return the ids of the stretches; nil if one is there twice.
local function ids_of(stretches)
  local ids, seen = {}, {}
  for i = 1, #stretches do
    local list = stretches[i][1]
    for j = 1, #list, 2 do
      local id = list[j]
      if seen[id] then
        return nil
      end
      seen[id] = true
      ids[#ids + 1] = id
    end
  end
  return ids
end

local function is_known(key, ids)
  local found = call('EXISTS', PREFIX .. key) == 1 and base.read_texts(key, ids) or {}
  for i = 1, #found do
    if found[i] then
      return true
    end
  end
  return false
end

local NO_RESULT, ELSEWHERE = pack(false), pack(false) .. pack(false)

local function write(stretches, number)
  local written, numbers, args, at = {}, {}, {}, 1
  local ready, text = {}, records.packed_text
  for i = 1, #stretches do
    local list, task, lane, user, priority = unpack(stretches[i], 1, 5)
    local form = records.former(task, lane, user or false, priority)
    local places = ready[lane] or {}
    ready[lane] = places
    local ranks = lanes.enter_fresh(lanes.get(lane), user, priority, #list / 2)
    for j = 1, #list, 2 do
      number = number + 1
      local id, given, rank, place = list[j], list[j + 1], ranks[(j + 1) / 2], #places
      local field, tail = string.format('%d', number), nil
      if records.is_long(given) then
        tail, args[#args + 1], args[#args + 2] = ELSEWHERE, field, given
      else
        tail = text(given) .. NO_RESULT
      end
      written[at], written[at + 1] = field, form(text(id), rank, tail)
      numbers[at], numbers[at + 1] = id, field
      places[place + 1], places[place + 2] = rank, string.format('%015d', number)
      at = at + 2
    end
  end
  runs.keep_long(args)
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
  if not ids or is_known('ids', ids) or is_known('takers', ids) or runs.last() + #ids > LAST then
    return nil
  end
  local ahead = {}
  for i = 1, #stretches do
    local book = lanes.get(stretches[i][3])
    ahead[i] = book.pending
    book.pending = book.pending + #stretches[i][1] / 2
  end
  write(stretches, runs.count_in(#ids))
  return ahead
end
