-- needs: state/move_part
-- Make the target of a move an ordinary store: {move}. Returns whether the store is the target of this move.

local move = unpacked(ARGV[2])[1]
local found = move_part.standing()
if found[2] ~= move or (found[1] ~= 'arriving' and found[1] ~= 'arrived') then
  return pack(false)
end
move_part.set('arrived', move, found[3])
base.flush()
return pack(true)
