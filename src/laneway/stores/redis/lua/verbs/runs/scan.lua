-- needs: runtime/base, state/runs, runtime/replies
-- Return runs that fit, newest first: {before, limit, wanted}. Numbers are smaller than `before` (false: all); `wanted`
-- is {state, task, lane, user, session}, each false if it is not used. Returns {runs, cursor}; the cursor is false at
-- the end.
--
-- One call looks at a limited number of runs, so that other clients can use the server. `blocks` has the thousands of
-- numbers with any runs, so gaps left by pruning cost nothing. If few runs are in the wanted state, they are read from
-- its own list.

local LOOKS, MOST, FEW = 1000, 500, 5000
local before, limit, wanted = unpack(unpacked(ARGV[2]), 1, 3)
before = before or tonumber(call('HGET', PREFIX .. 'counters', 'number') or 0) + 1
limit = min(limit, MOST)

local function fits(record)
  for i = 1, 5 do
    -- Most records that do not fit are found without unpacking them.
    if wanted[i] and not string.find(record, wanted[i], 1, true) then
      return false
    end
  end
  if not (wanted[1] or wanted[2] or wanted[3] or wanted[4] or wanted[5]) then
    return true
  end
  local run = unpacked(record)
  local ties = run[15] and run[15].ties
  return (not wanted[1] or run[3] == wanted[1]) and (not wanted[2] or run[16] == wanted[2])
    and (not wanted[3] or run[17] == wanted[3]) and (not wanted[4] or run[18] == wanted[4])
    and (not wanted[5] or (run[19] or (ties and ties.session)) == wanted[5])
end

local numbers, records, looked = {}, {}, 0

-- Look at these numbers, the greatest first. Return the cursor if that is enough for this call.
local function look(those)
  local fields = {}
  for i = 1, #those do
    fields[i] = base.digits(those[i])
  end
  local texts = call('HMGET', PREFIX .. 'runs', unpack(fields))
  looked = looked + #fields
  for i = 1, #fields do
    if texts[i] and fits(texts[i]) then
      numbers[#numbers + 1], records[#records + 1] = fields[i], texts[i]
      if #numbers == limit then
        return those[i]
      end
    end
  end
  local last = those[#those]
  return looked >= LOOKS and last > 1 and last or nil
end

local function descending(members)
  local found = {}
  for _, member in ipairs(members) do
    local number = tonumber(member)
    if number < before then
      found[#found + 1] = number
    end
  end
  table.sort(found, function(one, other) return one > other end)
  return found
end

-- Return the numbers of the runs in a state, if they are few and there is a list of them.
local function named(state)
  local count = tonumber(call('HGET', PREFIX .. 'states', state) or 0)
  if count == 0 then
    return {}
  elseif count > FEW or state == 'pending' then
    return nil
  elseif TERMINAL[state] then
    return descending(call('ZRANGE', PREFIX .. 'ended:' .. state, 0, -1))
  elseif BESIDE[state] then
    return descending(call('SMEMBERS', PREFIX .. state .. '_runs'))
  end
  local members = {}
  for _, worker in ipairs(call('HKEYS', PREFIX .. 'workers')) do
    for _, number in ipairs(call('SMEMBERS', PREFIX .. 'leases:' .. worker)) do
      members[#members + 1] = number
    end
  end
  return descending(members)
end

local piece = min(max(limit, 20), 500)

local function look_at(list)
  for first = 1, #list, piece do
    local on = look({unpack(list, first, min(first + piece - 1, #list))})
    if on then
      return on
    end
  end
  return false
end

-- Look at all runs, thousand by thousand.
local function look_at_all()
  for _, block in ipairs(descending(call('HKEYS', PREFIX .. 'blocks'))) do
    local low = block * 1000
    for first = min(low + 999, before - 1), low, -piece do
      local those = {}
      for number = first, max(low, first - piece + 1), -1 do
        those[#those + 1] = number
      end
      local on = look(those)
      if on then
        return on
      end
    end
  end
  return false
end

local few = wanted[1] and named(wanted[1])
local on
if few then
  on = look_at(few)
else
  on = look_at_all()
end
return replies.list({replies.runs(numbers, records), pack(on)})
