-- needs: rules/settings
-- Set an operator's values of a lane: {name, values}; without values, the declared ones apply again.

base.allow_full()
local args = unpacked(ARGV[2])
if args[2] then
  settings.set_lane(args[1], args[2])
elseif lanes.find(args[1]) then
  settings.unset_lane(args[1])
else
  return settings.unknown_lane(args[1])
end
return settings.done()
