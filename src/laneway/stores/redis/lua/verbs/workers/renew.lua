-- needs: rules/leases
-- Keep an incarnation alive: {incarnation}. Returns {now, leases, requests}, a lease being {number, fence}.

base.allow_full()
local id = unpacked(ARGV[2])[1]
local worker = workers.alive(id)
if not worker then
  return base.refusal('lease_lost')
end
workers.renew(worker)
local numbers, held = {}, {}
for number in pairs(workers.leases(id)) do
  numbers[#numbers + 1] = tonumber(number)
end
table.sort(numbers)
runs.load(numbers)
for i, number in ipairs(numbers) do
  held[i] = {number, runs.get(number).fence}
end
local requests = leases.requests(worker)
base.flush()
return pack({NOW, held, requests})
