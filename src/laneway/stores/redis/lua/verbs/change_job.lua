-- needs: runtime/base, state/jobbook, rules/waking
-- Write a job that somebody changed, at the version it was read: {id, what is kept of it, its spec}. Answers the job,
-- false if it is gone or has another version.

local args = unpacked(ARGV[2])
local known, job = jobbook.find(args[1]), jobbook.read(args[1], args[2])
if not known then
  return pack(false)
end
if job.call ~= '' and known.call == job.call then
  return pack(jobbook.shown(known))
end
if known.version ~= job.version then
  return pack(false)
end
local other = jobbook.namesake(job)
if other then
  return base.refusal('job_exists', job.name, other)
end
job.version = job.version + 1
if job.period == -1 then  -- its schedule is unreadable to who changed it, and so is what it was
  job.period, job.jitter = known.period, known.jitter
end
jobbook.list(job, args[3], known)
waking.wake()
local reply = pack(jobbook.shown(job))
base.flush()
return reply
