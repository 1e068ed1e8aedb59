-- needs: rules/leases
-- Renew an incarnation: {incarnation}. Returns {now, leases, requests}; a lease is {number, fence}.

base.allow_full()
local id = unpacked(ARGV[2])[1]
local worker = workers.alive(id)
if not worker then
  return base.refusal('lease_lost')
end
workers.renew(worker)
local numbers, held = workers.sorted_leases(id), {}
runs.load(numbers)
for i, number in ipairs(numbers) do
  held[i] = {number, runs.get(number).fence}
end
local requests = leases.requests(worker)
base.flush()
return pack({NOW, held, requests})
