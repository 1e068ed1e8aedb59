-- needs: state/move_part, rules/wakeups
-- Be the source of a move: {move, place}. Return how the store stands then.

base.allow_full()
local move, place = unpack(unpacked(ARGV[2]), 1, 2)
local found = move_part.standing()
if found[1] and found[1] ~= 'arrived' then
  return pack(found)
end
move_part.stand('shut', move, place)
for _, worker in ipairs(workers.all()) do
  wakeups.nudge(worker.id)
end
base.flush()
return pack({'shut', move, place, false, false})
