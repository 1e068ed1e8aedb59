-- needs: rules/settings
-- Set a user's cap in a lane: {user, lane, cap}; without a cap, the lane's applies again.

base.allow_full()
local args = unpacked(ARGV[2])
if not lanes.find(args[2]) then
  return settings.unknown_lane(args[2])
end
settings.set_cap(args[1], args[2], args[3])
return settings.done()
