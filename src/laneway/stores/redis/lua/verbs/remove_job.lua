-- needs: runtime/base, state/jobbook
-- Forget a job and its records: {id}. Answers the job as it was, false if there was none.

local job = jobbook.find(unpacked(ARGV[2])[1])
if not job then
  return pack(false)
end
local reply = pack(jobbook.shown(job))
jobbook.remove(job)
base.flush()
return reply
