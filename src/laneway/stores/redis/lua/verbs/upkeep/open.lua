-- needs: rules/settings
-- Make the namespace a store if it is none: {layout, lanes}, the default lanes as for declare_lanes. Returns the layout
-- that is there. It writes nothing to one that is a store already, unless it was emptied: {layout, lanes, true}.

local args = unpacked(ARGV[2])
local layout = call('HGET', PREFIX .. 'meta', 'layout')
if layout and not args[3] then
  return pack(tonumber(layout))
end
call_later('HSET', 'meta', 'layout', args[1], 'made_at', base.digits(NOW))
settings.declare(args[2])
base.flush()
return pack(args[1])
