-- needs: admin/snapshot, admin/repair, admin/recount, rules/wakeups
-- Return everything that must agree as it is, and set right what does not, in the same step.
base.allow_full()
local before = snapshot()
repair.mend()
recount.set()
wakeups.wake()
base.flush()
return before
