-- needs: runtime/base
-- Delete runs whose retention is over, with all that belongs to them, oldest ends first: {{{state, retention}, ...},
-- limit}. Returns how many.
--
-- An idempotency key is kept for a day (core/common/keys.py) even if its run is gone: sorted set `orphan_keys` has such
-- keys by when they were given.

local MOST, KEPT, KEYS_MOST = 500, 24 * 3600 * 1000000, 1000
local keep, limit = unpack(unpacked(ARGV[2]), 1, 2)
limit = min(limit, MOST)

local function outdated()
  local old = {}
  for _, one in ipairs(keep) do
    local key = 'ended:' .. one[1]
    local found = call(
      'ZRANGEBYSCORE', PREFIX .. key, '-inf', '(' .. base.digits(NOW - one[2]), 'WITHSCORES', 'LIMIT', 0, limit)
    for i = 1, #found, 2 do
      old[#old + 1] = {state = one[1], member = found[i], ended_at = tonumber(found[i + 1])}
    end
  end
  table.sort(old, function(one, other)
    if one.ended_at ~= other.ended_at then
      return one.ended_at < other.ended_at
    end
    return tonumber(one.member) < tonumber(other.member)
  end)
  for i = #old, limit + 1, -1 do
    old[i] = nil
  end
  return old
end

local lists = {}  -- by command and key: its values

local function remove(command, key, value)
  local name = command .. ' ' .. key
  if not lists[name] then
    lists[name] = {command = command, key = key}
    lists[#lists + 1] = lists[name]
  end
  lists[name][#lists[name] + 1] = value
end

local function prune_keys(fields, number)
  for _, field in ipairs(fields) do
    local text = call('HGET', PREFIX .. 'keys', field)
    local entry = text and unpacked(text)
    if entry and entry[2] == number then
      if NOW - entry[4] >= KEPT then
        remove('HDEL', 'keys', field)
      else
        call_later('ZADD', 'orphan_keys', entry[4], field)
      end
    end
  end
end

local function prune_messages(field, number)
  for _, text in ipairs(call('LRANGE', PREFIX .. 'taken:' .. field, 0, -1)) do
    local id = unpacked(text)[1]
    local taker = call('HGET', PREFIX .. 'takers', id)
    -- An unread message was taken twice; its id stands for the run that took it first.
    if taker and unpacked(taker)[1] == number then
      remove('HDEL', 'takers', id)
    end
  end
  call_later('UNLINK', 'taken:' .. field)
end

local BESIDE_RUN = {'runs', 'args', 'ties', 'follows', 'results', 'failures', 'saved', 'prepared'}

local function delete(old)
  local number = tonumber(old.member)
  local field = base.digits(number)
  local text = call('HGET', PREFIX .. 'runs', field)
  local run = text and unpacked(text)
  local rare = run and run[15] or {}
  remove('ZREM', 'ended:' .. old.state, old.member)
  if run then
    remove('HDEL', 'ids', run[21])
    remove('ZREM', 'fresh:' .. run[17], old.member)
    base.count('states', old.state, -1)
    base.count('counters', 'long_args', run[24] and 0 or -1)
    base.count('blocks', base.digits(math.floor(number / 1000)), -1)
  end
  for _, name in ipairs(BESIDE_RUN) do
    remove('HDEL', name, field)
  end
  if rare.keyed then
    prune_keys(rare.keyed, number)
  end
  if rare.messages then
    prune_messages(field, number)
  end
  if rare.memos then
    call_later('UNLINK', 'memos:' .. field)
  end
  if rare.spilled then
    call_later('UNLINK', 'log:' .. field)
  end
  if rare.streamed then
    remove('ZREM', 'streamed', old.member)
  end
end

-- Delete keys whose day is over and whose run is gone.
local function drop_keys()
  local old = call(
    'ZRANGEBYSCORE', PREFIX .. 'orphan_keys', '-inf', base.digits(NOW - KEPT), 'LIMIT', 0, KEYS_MOST)
  for _, field in ipairs(old) do
    remove('ZREM', 'orphan_keys', field)
    local text = call('HGET', PREFIX .. 'keys', field)
    local entry = text and unpacked(text)
    -- The key may stand for another run by now.
    if entry and NOW - entry[4] >= KEPT and call('HEXISTS', PREFIX .. 'ids', entry[1]) == 0 then
      remove('HDEL', 'keys', field)
    end
  end
end

base.at_this_end(function()
  for _, list in ipairs(lists) do
    base.send(list.command, PREFIX .. list.key, list)
  end
end)

local old = outdated()
for i = 1, #old do
  delete(old[i])
end
drop_keys()
base.allow_full()
base.flush()
return pack(#old)
