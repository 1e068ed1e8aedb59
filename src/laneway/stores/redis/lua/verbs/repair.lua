-- needs: admin/picture, admin/mending, admin/recounting, rules/waking
-- Return everything that must agree as it is, and set right what does not, in the same step.
base.allow_full()
local before = picture()
mending.mend()
recounting.set()
waking.wake()
base.flush()
return before
