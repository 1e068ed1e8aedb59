-- needs: rules/lifecycle/acceptance, state/new_runs, fast/uniform_batch, rules/wakeups, rules/rollback
-- Accept a batch: submissions in the form of rules/lifecycle/acceptance.lua, or groups of plain ones in that of
-- fast/uniform_batch.lua. Returns their receipts.

base.refuse_full()
local batch, before = unpacked(ARGV[2]), new_runs.last()
control.make_due()
local accepted = uniform_batch.accept(batch)
local receipts = accepted or {}
for _, item in ipairs(accepted and {} or batch) do
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
return pack(receipts)
