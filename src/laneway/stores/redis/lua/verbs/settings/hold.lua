-- needs: rules/settings
-- Pause or resume a lane, user, session or task: {what, name, held}.

base.allow_full()
local args = unpacked(ARGV[2])
if args[1] == 'lane' and not lanes.find(args[2]) then
  return settings.unknown_lane(args[2])
end
settings.hold(args[1], args[2], args[3])
return settings.done()
