-- needs: rules/leases, rules/lifecycle/acceptance, rules/wakeups
-- Take over from the dead: {incarnation, gone, limit}. Returns {numbers of the lapsed, lapsed, more}.

base.allow_full()
local args = unpacked(ARGV[2])
local heir, gone, limit = workers.alive(args[1]), {}, args[3]
if not heir then
  return base.refusal('lease_lost')
end
workers.renew(heir)
for _, id in ipairs(args[2]) do
  gone[id] = true
end

local function sorted_leases(id)
  local numbers = {}
  for number in pairs(workers.leases(id)) do
    numbers[#numbers + 1] = tonumber(number)
  end
  table.sort(numbers)
  runs.load(numbers)
  return numbers
end

local function lapsed_of(id)
  local found = {}
  for _, number in ipairs(sorted_leases(id)) do
    local run = runs.get(number)
    if run.lapsed then
      found[#found + 1] = run
    end
  end
  return found
end

local room, more = limit - #lapsed_of(heir.id), false
for _, worker in ipairs(workers.all()) do
  if worker.id ~= heir.id and (gone[worker.id] or workers.is_dead(worker)) then
    worker.left = true
    wakeups.rest(worker, false)
    for _, number in ipairs(sorted_leases(worker.id)) do
      if room <= 0 then
        more = true
        break
      end
      local run = runs.get(number)
      workers.hand(run, heir.id, true)
      room = room - 1
    end
    workers.forget_if_done(worker)
  end
end

local numbers, lapsed = leases.handed(lapsed_of(heir.id))
wakeups.wake()
base.flush()
return replies.list({numbers, lapsed, pack(more)})
