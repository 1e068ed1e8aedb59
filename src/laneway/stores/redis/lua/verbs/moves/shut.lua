-- needs: state/move_part, rules/wakeups
-- Become the source of a move: {move, place}. Returns the store's part in a move.

base.allow_full()
local move, place = unpack(unpacked(ARGV[2]), 1, 2)
local found = move_part.standing()
if found[1] and found[1] ~= 'arrived' then
  return pack(found)
end
move_part.set('shut', move, place)
for _, worker in ipairs(workers.all()) do
  wakeups.send(worker.id, '')
end
base.flush()
return pack({'shut', move, place, false, false})
