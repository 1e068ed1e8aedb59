-- needs: runtime/base, state/job_records
-- Forget a job and its records: {id}. Answers the job as it was, false if there was none.

local job = job_records.find(unpacked(ARGV[2])[1])
if not job then
  return pack(false)
end
local reply = pack(job_records.shown(job))
job_records.remove(job)
base.flush()
return reply
