-- needs: admin/moving, rules/waking
-- Be the source of a move: {move, place}. Return how the store stands then.

base.allow_full()
local move, place = unpack(unpacked(ARGV[2]), 1, 2)
local found = moving.standing()
if found[1] and found[1] ~= 'arrived' then
  return pack(found)
end
moving.stand('shut', move, place)
for _, worker in ipairs(workers.all()) do
  waking.nudge(worker.id)
end
base.flush()
return pack({'shut', move, place, false, false})
