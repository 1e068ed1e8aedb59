-- needs: runtime/base
-- Return the ids of runs that ended longer ago than this and have deltas in their logs, those that ended first first.
local older_than, limit = unpack(unpacked(ARGV[2]), 1, 2)
local members = call(
  'ZRANGEBYSCORE', PREFIX .. 'streamed', '-inf', '(' .. base.digits(NOW - older_than), 'LIMIT', 0, limit)
local found = {}
for i, member in ipairs(members) do
  local text = call('HGET', PREFIX .. 'runs', base.digits(tonumber(member)))
  found[i] = {tonumber(member), text and unpacked(text)[21] or false}
end
return pack(found)
