-- needs: state/workers, rules/lifecycle/acceptance, rules/wakeups
-- Note that an incarnation has left: {incarnation}. Its leases can be reclaimed at once.

base.allow_full()
local worker = workers.find(unpacked(ARGV[2])[1])
if worker then
  worker.left = true
  wakeups.set_idle(worker, false)
  workers.delete_if_done(worker)
end
wakeups.wake()
base.flush()
return pack(true)
