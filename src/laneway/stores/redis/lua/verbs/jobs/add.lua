-- needs: runtime/base, state/job_records, rules/wakeups
-- Write a new job: {id, record, spec}. Returns the job.

base.refuse_full()
local args = unpacked(ARGV[2])
local id = args[1]
if not job_records.find(id) then
  local job = job_records.read(id, args[2])
  local other = job_records.namesake(job)
  if other then
    return base.refusal('job_exists', job.name, other)
  end
  job_records.list(job, args[3])
  wakeups.wake()
end
local reply = pack(job_records.shown(job_records.find(id)))
base.flush()
return reply
