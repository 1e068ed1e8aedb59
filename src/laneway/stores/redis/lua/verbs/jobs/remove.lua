-- needs: runtime/base, state/job_records
-- Delete a job and its records: {id}. Returns the job as it was, false if it did not exist.

local job = job_records.find(unpacked(ARGV[2])[1])
if not job then
  return pack(false)
end
local reply = pack(job_records.shown(job))
job_records.remove(job)
base.flush()
return reply
