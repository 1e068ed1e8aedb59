-- needs: state/workers, rules/acceptance, rules/waking
-- Say good-bye: {incarnation}. What it still holds can be reclaimed at once.

base.allow_full()
local worker = workers.find(unpacked(ARGV[2])[1])
if worker then
  worker.left = true
  waking.rest(worker, false)
  workers.forget_if_done(worker)
end
waking.wake()
base.flush()
return pack(true)
