-- needs: runtime/base
-- Return runs that ended longer ago than this and have deltas in their logs, oldest ends first: {older_than, limit}.
-- Returns {number, id} of each; the id is false if the run is gone.
local older_than, limit = unpack(unpacked(ARGV[2]), 1, 2)
local members = call(
  'ZRANGEBYSCORE', PREFIX .. 'streamed', '-inf', '(' .. base.digits(NOW - older_than), 'LIMIT', 0, limit)
local found = {}
for i, member in ipairs(members) do
  local text = call('HGET', PREFIX .. 'runs', base.digits(tonumber(member)))
  found[i] = {tonumber(member), text and unpacked(text)[21] or false}
end
return pack(found)
