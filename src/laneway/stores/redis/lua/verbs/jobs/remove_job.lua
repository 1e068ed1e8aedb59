-- needs: runtime/base, state/job_records
-- Delete a job and its records: {id}. Returns whether it existed.

local job = job_records.find(unpacked(ARGV[2])[1])
if job then
  job_records.remove(job)
  base.flush()
end
return pack(job ~= nil)
