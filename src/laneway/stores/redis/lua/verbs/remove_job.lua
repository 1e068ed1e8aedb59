-- needs: runtime/base, state/jobbook
-- Forget a job and its records: {id}. Answers whether it was there.

local job = jobbook.find(unpacked(ARGV[2])[1])
if job then
  jobbook.remove(job)
  base.flush()
end
return pack(job ~= nil)
