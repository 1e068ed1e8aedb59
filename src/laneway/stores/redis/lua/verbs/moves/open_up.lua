-- needs: state/move_part
-- Be an ordinary store: {move}. Return whether it is the target of this move.

local move = unpacked(ARGV[2])[1]
local found = move_part.standing()
if found[2] ~= move or (found[1] ~= 'arriving' and found[1] ~= 'arrived') then
  return pack(false)
end
move_part.stand('arrived', move, found[3])
base.flush()
return pack(true)
