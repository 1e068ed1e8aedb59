-- needs: runtime/base
-- Return records of a job, newest first: {id, limit, before}; `before` is false or the number that they are smaller
-- than.

local args = unpacked(ARGV[2])
local key, limit, before = PREFIX .. 'fires:' .. args[1], args[2], args[3]
local oldest, last = call('LINDEX', key, 0), call('LLEN', key) - 1
if not oldest or limit <= 0 then
  return pack({})
end
if before then  -- the numbers have no gaps
  last = min(last, before - unpacked(oldest)[9] - 1)
end
local rows = {}
if last >= 0 then
  local texts = call('LRANGE', key, max(0, last - limit + 1), last)
  for i = 1, #texts do
    rows[i] = unpacked(texts[#texts + 1 - i])
  end
end
return pack(rows)
