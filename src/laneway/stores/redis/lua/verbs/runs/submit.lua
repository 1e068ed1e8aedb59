-- needs: rules/lifecycle/acceptance, state/new_runs, fast/uniform_batch, rules/wakeups, rules/rollback
-- Accept a batch of submissions, each as rules/lifecycle/acceptance.lua reads it, or groups of plain ones (fast/uniform_batch.lua). Returns
-- their receipts, or, if all of them are groups that went straight in, by group how many runs were before its first.

base.refuse_full()
local batch, receipts, before = unpacked(ARGV[2]), {}, new_runs.last()
control.make_due()
local ahead = uniform_batch.accept(batch)
for _, item in ipairs(ahead and {} or batch) do
  if type(item[1]) == 'table' then
    for i = 1, #item[1] do
      receipts[#receipts + 1] = acceptance.accept(acceptance.read({item[1][i], item[3], item[2][i], item[4]}))
    end
  else
    receipts[#receipts + 1] = acceptance.accept(acceptance.read(item))
  end
end
local are_written = false
local done, failure = pcall(wakeups.wake_or_claim_ahead, function()
  are_written = true
end)
if not done then
  if not are_written then
    rollback.forget(batch, before)
  end
  error(failure, 0)
end
return pack(ahead or receipts)
