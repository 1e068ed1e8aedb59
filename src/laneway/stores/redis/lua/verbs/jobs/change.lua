-- needs: runtime/base, state/job_records, rules/wakeups
-- Write a changed job if it still has the version that the caller read: {id, record, spec}. Returns the job, false if
-- it is gone or has another version.

local args = unpacked(ARGV[2])
local known, job = job_records.find(args[1]), job_records.read(args[1], args[2])
if not known then
  return pack(false)
end
if job.call ~= '' and known.call == job.call then
  return pack(job_records.shown(known))
end
if known.version ~= job.version then
  return pack(false)
end
local other = job_records.namesake(job)
if other then
  return base.refusal('job_exists', job.name, other)
end
job.version = job.version + 1
if job.period == -1 then  -- the caller cannot read its schedule, so it has not changed that
  job.period, job.jitter = known.period, known.jitter
end
job_records.list(job, args[3], known)
wakeups.wake()
local reply = pack(job_records.shown(job))
base.flush()
return reply
