-- needs: runtime/base, state/run_records, rules/inboxes
-- Deleting the runs of a submission that fails while it is written, for instance at a key of another type: a server
-- undoes nothing of a script. Otherwise a run that was refused would exist, and start once its shelf is repaired.
--
-- Counts, and changes to other runs, may stay half written: `repair` corrects them by the records.

local rollback = {}

-- Delete what is written of a run, which was that item of its batch, or in it if the item is a group.
local function forget(id, field, item)
  for _, hash in ipairs({'runs', 'args', 'ties', 'follows'}) do
    redis.pcall('HDEL', PREFIX .. hash, field)
  end
  redis.pcall('HDEL', PREFIX .. 'ids', id)
  local shelves = {'due', 'ready:main', 'ready:' .. item[4], 'fresh:main', 'fresh:' .. item[4]}
  local session = type(item[1]) == 'string' and item[6]
  if session then
    shelves[#shelves + 1], shelves[#shelves + 2] = 'held:' .. session, 'later:' .. session
  end
  for _, shelf in ipairs(shelves) do
    redis.pcall('ZREM', PREFIX .. shelf, base.member(tonumber(field)))
  end
end

local function take_back(id, number, item)
  local field = redis.pcall('HGET', PREFIX .. 'ids', id)
  if type(field) ~= 'string' or tonumber(field) <= number then
    return
  end
  local record = redis.pcall('HGET', PREFIX .. 'runs', field)
  if type(record) ~= 'string' or run_records.peek(record).state == 'pending' then
    forget(id, field, item)
  end
end

-- Delete the key of a submission if it stands for the run that was not accepted.
local function free_key(wire)
  local field = inboxes.key_field(wire[2], wire[5], wire[8].key)
  local entry = redis.pcall('HGET', PREFIX .. 'keys', field)
  local stands = type(entry) == 'string' and unpacked(entry)[1] == wire[1]
  if stands and redis.pcall('HEXISTS', PREFIX .. 'ids', wire[1]) == 0 then
    redis.pcall('HDEL', PREFIX .. 'keys', field)
  end
end

-- Delete what is written of the runs of a batch (the arguments of verbs/runs/submit.lua) with greater numbers than this
-- one: those are of this call.
function rollback.forget(batch, number)
  for _, item in ipairs(batch) do
    for _, id in ipairs(type(item[1]) == 'table' and item[1] or {item[1]}) do
      take_back(id, number, item)
    end
    if item[8] and item[8].key then
      free_key(item)
    end
  end
end
