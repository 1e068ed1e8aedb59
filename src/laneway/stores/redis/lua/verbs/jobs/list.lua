-- needs: runtime/base, state/job_records
-- Return jobs by name, then id: {after, its id, limit, named, owner, task, source, on}. A filter that is false is not
-- used; `on` is 0 for all jobs, 1 for jobs that fire, 2 for the others. `named` is a name or an id; the job with that
-- id comes first. Returns {jobs, name, id}: the last two are the cursor, and are missing at the end.

local args = unpacked(ARGV[2])
local limit, asked, owner, task, source, on = args[3], args[4], args[5], args[6], args[7], args[8]
local LOOKED_AT = 500  -- jobs in one call: very many may not fit the filters

local function fits(job)
  return (not owner or job.owner == owner)
    and (not task or job.task == task)
    and (not source or job.source == source)
    and (on == 0 or (on == 1) == job_records.is_on(job))
end

local after = job_records.place(args[1], args[2])
local first, last, rows = '(' .. after, '+', {}
if asked then
  local job = job_records.find(asked)
  if job and job.name ~= asked and base.comes_before(after, job_records.place(job.name, job.id)) and fits(job) then
    rows[1] = job_records.shown(job)
  end
  last = '(' .. asked .. '\1'
  if base.comes_before(after, asked .. '\0') then
    first = '[' .. asked .. '\0'
  end
end
local index = PREFIX .. (owner and 'jobs_of:' .. owner or 'jobs_listed')
local places, ids = call('ZRANGEBYLEX', index, first, last, 'LIMIT', 0, LOOKED_AT), {}
for i = 1, #places do
  ids[i] = match(places[i], '[^%z]*$')
end
job_records.load(ids)
local left = limit
for i = 1, #ids do
  local job = job_records.find(ids[i])
  if left > 0 and fits(job) then
    rows[#rows + 1] = job_records.shown(job)
    left = left - 1
  end
end
if left > 0 and #ids == LOOKED_AT then
  return pack({rows, job_records.find(ids[#ids]).name, ids[#ids]})
end
return pack({rows})
