-- needs: runtime/base, state/jobbook, rules/waking
-- Keep a new job: {id, what is kept of it, its spec}. Answers the job.

base.refuse_full()
local args = unpacked(ARGV[2])
local id = args[1]
if not jobbook.find(id) then
  local job = jobbook.read(id, args[2])
  local other = jobbook.namesake(job)
  if other then
    return base.refusal('job_exists', job.name, other)
  end
  jobbook.list(job, args[3])
  waking.wake()
end
local reply = pack(jobbook.shown(jobbook.find(id)))
base.flush()
return reply
