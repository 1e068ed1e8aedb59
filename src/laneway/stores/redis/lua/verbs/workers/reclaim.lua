-- needs: rules/leases, rules/lifecycle/acceptance, rules/wakeups
-- Take over the leases of dead incarnations: {incarnation, gone, limit}. `gone` are incarnations whose processes are
-- known to have ended. Returns {numbers, runs, more}: all lapsed runs that the incarnation holds, and whether others
-- are left.

base.allow_full()
local args = unpacked(ARGV[2])
local caller, gone, limit = workers.alive(args[1]), {}, args[3]
if not caller then
  return base.refusal('lease_lost')
end
workers.renew(caller)
for _, id in ipairs(args[2]) do
  gone[id] = true
end

local function leased(id)
  local numbers = workers.sorted_leases(id)
  runs.load(numbers)
  return numbers
end

local function lapsed_of(id)
  local found = {}
  for _, number in ipairs(leased(id)) do
    local run = runs.get(number)
    if run.lapsed then
      found[#found + 1] = run
    end
  end
  return found
end

local room, more = limit - #lapsed_of(caller.id), false
for _, worker in ipairs(workers.all()) do
  if worker.id ~= caller.id and (gone[worker.id] or workers.is_dead(worker)) then
    worker.left = true
    wakeups.set_idle(worker, false)
    for _, number in ipairs(leased(worker.id)) do
      if room <= 0 then
        more = true
        break
      end
      local run = runs.get(number)
      workers.hand(run, caller.id, true)
      room = room - 1
    end
    workers.delete_if_done(worker)
  end
end

local numbers, lapsed = leases.handed(lapsed_of(caller.id))
wakeups.wake()
base.flush()
return replies.list({numbers, lapsed, pack(more)})
