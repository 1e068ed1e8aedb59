-- needs: state/workers, rules/lifecycle/acceptance, rules/wakeups
-- Say good-bye: {incarnation}. What it still holds can be reclaimed at once.

base.allow_full()
local worker = workers.find(unpacked(ARGV[2])[1])
if worker then
  worker.left = true
  wakeups.rest(worker, false)
  workers.forget_if_done(worker)
end
wakeups.wake()
base.flush()
return pack(true)
