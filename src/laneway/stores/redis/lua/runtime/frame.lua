-- What every file may use: where the keys are, what time it is, and the server's functions. Set again at each call,
-- because a library of functions is loaded once and called many times.

local function globals()
  return tonumber, pairs, ipairs, next, unpack, setmetatable
end

local call, pack, unpacked, PREFIX, NOW
-- Lua's own functions as locals: a server looks up globals more slowly.
local tonumber, pairs, ipairs, next, unpack, setmetatable
local byte, sub, find, match, gmatch, char, min, max, unpack_limit
local IN_LIBRARY = false
local begins = {}  -- functions that reset the modules before a call

local function bind()
  call, pack, unpacked = redis.call, cmsgpack.pack, cmsgpack.unpack
  tonumber, pairs, ipairs, next, unpack, setmetatable = globals()
  byte, sub, find = string.byte, string.sub, string.find
  match, gmatch, char = string.match, string.gmatch, string.char
  min, max, unpack_limit = math.min, math.max, cmsgpack.unpack_limit
end

local function begin(keys, argv)
  PREFIX = keys[1] .. ':'
  if not argv[1] or argv[1] == '' then
    local time = call('TIME')
    NOW = time[1] * 1000000 + time[2]
  else
    NOW = tonumber(argv[1])  -- microseconds since 1970, given by tests
  end
  for i = 1, #begins do
    begins[i]()
  end
end

-- Return the refusal of a call that the store's part in a move forbids, else nil. `brings` is true for a call that
-- brings something new, false for one that changes something.
local function gate(brings)
  local found = call('HMGET', PREFIX .. 'move', 'phase', 'place')
  local phase = found[1]
  if not phase or phase == 'arrived' or (phase == 'shut' and not brings) then
    return nil
  end
  return redis.error_reply('LANEWAY ' .. (phase == 'arriving' and phase or 'moved') .. ' ' .. cjson.encode({found[2]}))
end
