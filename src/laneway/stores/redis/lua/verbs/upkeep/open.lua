-- needs: rules/settings
-- Make the namespace a store if it is none: {layout, lanes, is_empty}; `lanes` are the default ones, in the form of
-- declare_lanes. Returns the layout. It writes nothing to an existing store, unless `is_empty` says that it was
-- emptied.

local args = unpacked(ARGV[2])
local layout = call('HGET', PREFIX .. 'meta', 'layout')
if layout and not args[3] then
  return pack(tonumber(layout))
end
call_later('HSET', 'meta', 'layout', args[1], 'made_at', base.digits(NOW))
settings.declare(args[2])
base.flush()
return pack(args[1])
