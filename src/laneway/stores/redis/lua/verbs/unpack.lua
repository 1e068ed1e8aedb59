-- needs: admin/moving, admin/carrying
-- Take in pieces that another store had: {move, mark, pieces}; a mark that is false leaves what is remembered. Return
-- whether the store is the target of this move.

local move, mark, pieces = unpack(unpacked(ARGV[2]), 1, 3)
local found = moving.standing()
if found[1] ~= 'arriving' or found[2] ~= move or found[5] then
  return pack(false)
end
carrying.unpack(pieces)
if mark then
  call_later('HSET', 'move', 'mark', mark)
end
base.flush()
return pack(true)
