-- needs: rules/acceptance, state/making, fast/plain, rules/waking, fast/takingback
-- Accept a batch of submissions, each as acceptance.lua reads it, or stretches of them (plain.lua). Returns their
-- receipts, or, if all of them are stretches that went straight in, by stretch how many runs were before its first.

base.refuse_full()
local batch, receipts, before = unpacked(ARGV[2]), {}, making.last()
steering.make_due()
local ahead = plain.accept(batch)
for _, item in ipairs(ahead and {} or batch) do
  if type(item[1]) == 'table' then
    for i = 1, #item[1] do
      local wire = {item[1][i], item[3], item[2][i], item[4], item[5], nil, item[6]}
      receipts[#receipts + 1] = acceptance.accept(acceptance.read(wire))
    end
  else
    receipts[#receipts + 1] = acceptance.accept(acceptance.read(item))
  end
end
local done, trouble = pcall(waking.wake_or_lend)
if not done then
  takingback.forget(batch, before)
  error(trouble, 0)
end
return pack(ahead or receipts)
