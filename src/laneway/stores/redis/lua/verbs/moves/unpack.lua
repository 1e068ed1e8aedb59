-- needs: state/move_part, admin/pieces
-- Take in pieces that another store had: {move, mark, pieces}; a mark that is false leaves what is remembered. Return
-- whether the store is the target of this move.

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
