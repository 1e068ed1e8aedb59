-- needs: state/move_part
-- Become the target of a move: {move, place}. Returns the store's part in a move; `clearing` is set if the store must
-- be emptied first.

local move, place = unpack(unpacked(ARGV[2]), 1, 2)
local found = move_part.standing()
if found[2] == move or found[1] == 'shut' then
  return pack(found)
end
move_part.set('arriving', move, place)
call_later('HSET', 'move', 'clearing', '1')
base.flush()
return pack({'arriving', move, place, false, '1'})
