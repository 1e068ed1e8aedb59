-- needs: runtime/base, state/runs, state/fire_records, state/job_records, rules/jobs/after, rules/lifecycle/control
-- needs: rules/lifecycle/acceptance, rules/wakeups
-- Write firings, each if its job has that version: {job, version, state, runs, records}. Version and state may be
-- false; runs are submissions in the form of rules/lifecycle/acceptance.lua. Returns {won, receipts} for each; a
-- receipt is false if the run existed before.

base.refuse_full()
local firings, ids, fired = unpacked(ARGV[2])[1], {}, {}
for i = 1, #firings do
  ids[i] = firings[i][1]
end
job_records.load(ids)
control.make_due()

local function fire(job, firing)
  local asked, receipts = {}, {}
  for i, wire in ipairs(firing[4]) do
    local new = acceptance.read(wire)
    asked[i] = new
    receipts[i] = not fire_records.has(job.id, new.id) and not runs.number_of(new.id) and acceptance.accept(new)
  end
  -- Accepting a run may have ended others of the job, which changed the job.
  local taken = {state = firing[3], runs = asked, records = firing[5], by_hand = not firing[2]}
  job_after.applied(job_records.find(job.id) or job, taken, receipts)
  return {true, receipts}
end

for i, firing in ipairs(firings) do
  local job = job_records.find(firing[1])
  if job and (not firing[2] or firing[2] == job.version) then
    fired[i] = fire(job, firing)
  else
    fired[i] = {false, {}}
  end
end
wakeups.wake()
base.flush()
return pack(fired)
