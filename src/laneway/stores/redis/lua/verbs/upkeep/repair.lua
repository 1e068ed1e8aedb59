-- needs: admin/snapshot, admin/repair, admin/recount, rules/wakeups
-- Return a snapshot of everything that must agree, and repair what does not, in the same script.
base.allow_full()
local before = snapshot()
repair.places()
recount.set()
wakeups.wake()
base.flush()
return before
