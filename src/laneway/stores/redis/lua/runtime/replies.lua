-- needs: runtime/base
-- Replies made of values that the store keeps packed: a header followed by packed values is a packed list. So values
-- are not unpacked only to be packed again.

local replies = {}

-- Return the header of a packed list of so many values.
local function header(count)
  if count < 16 then
    return char(0x90 + count)
  end
  return char(
    0xdd, math.floor(count / 16777216) % 256, math.floor(count / 65536) % 256, math.floor(count / 256) % 256,
    count % 256)
end

-- Return the packed list of values that are packed already.
function replies.list(parts)
  return header(#parts) .. table.concat(parts)
end

-- Return a hash of packed values as a packed list: fields and values in turn.
function replies.hash(name)
  local found = call('HGETALL', PREFIX .. name)
  for i = 1, #found, 2 do
    found[i] = pack(found[i])
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

-- Return runs in the form of `runs.shown`: number, record, args, ties, result, failure. `numbers` are texts, `records`
-- are packed.
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

-- Return the number (as text) and the packed record of the run with this id; false if there is none.
function replies.find(id)
  local number = call('HGET', PREFIX .. 'ids', id)
  local record = number and call('HGET', PREFIX .. 'runs', number)
  return record and number, record
end

function replies.unknown()
  return base.refusal('unknown_run')
end
