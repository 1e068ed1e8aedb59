-- needs: rules/settings
-- Index older runs of a lane whose policy has become drop_old: {lane, after}. It looks at some thousand numbers behind
-- `after`. Returns the cursor, false at the end.

base.allow_full()
local args = unpacked(ARGV[2])
local lane, after = args[1], args[2]
local newest = tonumber(call('HGET', PREFIX .. 'counters', 'number') or 0)
local last, numbers, found = min(newest, after + 4000), {}, {}
for number = after + 1, last do
  numbers[#numbers + 1] = number
end
runs.load(numbers)
for _, number in ipairs(numbers) do
  local run = runs.get(number)
  if run and run.lane == lane and run.fence == 0 and not TERMINAL[run.state] then
    found[#found + 1] = number
    found[#found + 1] = base.member(number)
  end
end
base.at_this_end(function()
  base.send('ZADD', PREFIX .. 'fresh:' .. lane, found)
end)
if last == newest then
  base.put_in('unlisted', lane, false)
end
base.flush()
return pack(last < newest and last)
