-- needs: state/move_part, admin/pieces
-- Write pieces of another store: {move, mark, pieces}. The mark says how far the move has come; false leaves the old
-- one. Returns whether the store is the target of this move.

local move, mark, list = unpack(unpacked(ARGV[2]), 1, 3)
local found = move_part.standing()
if found[1] ~= 'arriving' or found[2] ~= move or found[5] then
  return pack(false)
end
pieces.unpack(list)
if mark then
  call_later('HSET', 'move', 'mark', mark)
end
base.flush()
return pack(true)
