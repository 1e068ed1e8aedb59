-- needs: state/move_part
-- Be the target of a move: {move, place}. Return how the store stands then. One that is to be emptied first says so.

local move, place = unpack(unpacked(ARGV[2]), 1, 2)
local found = move_part.standing()
if found[2] == move or found[1] == 'shut' then
  return pack(found)
end
move_part.stand('arriving', move, place)
call_later('HSET', 'move', 'clearing', '1')
base.flush()
return pack({'arriving', move, place, false, '1'})
