-- needs: runtime/base
-- Replies that hold what is kept packed already: packed values one behind another, under a header, are a packed list.
-- So nothing is unpacked here only to be packed again.

local replies = {}

-- Return what stands before a packed list of so many values.
local function header(count)
  if count < 16 then
    return char(0x90 + count)
  end
  return char(
    0xdd, math.floor(count / 16777216) % 256, math.floor(count / 65536) % 256, math.floor(count / 256) % 256,
    count % 256)
end

-- Return the packed list of values that are packed already; `count` says how many they are if some stand together.
function replies.list(parts, count)
  return header(count or #parts) .. table.concat(parts)
end

-- Add what is handed to a worker, a packed list, to texts that are going to be joined. `texts` stand in groups {first
-- place, front, width}: those of one are `width` packed values each, and stand in one list behind what they have in
-- common, the front. Where there is no width each is packed as a whole.
--
-- Nothing is joined here only to be joined again: every byte of a text is hashed.
function replies.add_grouped(parts, texts, groups)
  local at, count = #parts + 1, 0
  local place = at
  for i = 1, #groups do
    local first, front, width = unpack(groups[i], 1, 3)
    local last = groups[i + 1] and groups[i + 1][1] - 1 or #texts
    if width then
      parts[at + 1], parts[at + 2] = front, header(width * (last - first + 1))
      at, count = at + 2, count + 1
    else
      count = count + last - first + 1
    end
    at = at + 1
    parts[at] = table.concat(texts, '', first, last)
  end
  parts[place] = header(count)
end

-- Return a hash of packed values as a packed list: a field, its value, the next field. `shown` says what to show of one.
function replies.hash(name, shown)
  local found = call('HGETALL', PREFIX .. name)
  for i = 1, #found, 2 do
    found[i] = pack(found[i])
    if shown then
      found[i + 1] = shown(found[i + 1])
    end
  end
  return replies.list(found)
end

-- Return a hash of plain texts as a packed list.
function replies.texts(name)
  return pack(call('HGETALL', PREFIX .. name))
end

function replies.members(name)
  return pack(call('SMEMBERS', PREFIX .. name))
end

local BESIDE_RUNS = {'args', 'ties', 'results', 'failures'}

-- Return runs as `runs.shown` has them: number, record, args, ties, result, failure. `numbers` are texts, `records`
-- packed.
function replies.runs(numbers, records)
  if #numbers == 0 then
    return pack({})
  end
  local beside, found = {}, {}
  for i, name in ipairs(BESIDE_RUNS) do
    beside[i] = call('HMGET', PREFIX .. name, unpack(numbers))
  end
  for i, number in ipairs(numbers) do
    found[i] = replies.list({
      pack(tonumber(number)), records[i], pack(beside[1][i]), pack(beside[2][i]), pack(beside[3][i]),
      pack(beside[4][i]),
    })
  end
  return replies.list(found)
end

-- Return the number of the run with that whole id, as text, and its record, packed; false if there is none.
function replies.find(id)
  local number = call('HGET', PREFIX .. 'ids', id)
  local record = number and call('HGET', PREFIX .. 'runs', number)
  return record and number, record
end

function replies.unknown()
  return base.refusal('unknown_run')
end
