-- needs: state/move_part, state/workers
-- Freeze the source of a move, if no lease is left: {move}. Returns how many leases are left, 0 once the store is
-- frozen; false if the store is not the source of this move.

base.allow_full()
local move = unpacked(ARGV[2])[1]
local found, busy = move_part.standing(), 0
if found[2] ~= move or not move_part.leaving() then
  return pack(false)
end
for _, worker in ipairs(workers.all()) do
  busy = busy + call('SCARD', PREFIX .. 'leases:' .. worker.id)
end
if busy == 0 then
  move_part.set('frozen', move, found[3])
end
base.flush()
return pack(busy)
