-- needs: runtime/base, state/job_records
-- Return due jobs by due time, then id: {limit, at, id}; the last two are the cursor. Returns {now, jobs, when the next
-- job is due, by how much the clock is behind the latest time that a job was written at}.

local args = unpacked(ARGV[2])
local limit, at, id = args[1], args[2], args[3]
local key, now = PREFIX .. 'jobs_due', base.digits(NOW)

-- Return how many jobs are at or before the cursor, by binary search: very many may be due at one instant.
local function passed()
  local low = call('ZCOUNT', key, '-inf', '(' .. base.digits(at))
  local high = call('ZCOUNT', key, '-inf', base.digits(at))
  while low < high do
    local middle = math.floor((low + high) / 2)
    if not base.comes_before(id, call('ZRANGE', key, middle, middle)[1]) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local found, rows = {}, {}
local due, first = call('ZCOUNT', key, '-inf', now), passed()
if limit > 0 and first < due then
  found = call('ZRANGE', key, first, min(first + limit, due) - 1)
  job_records.load(found)
end
for i = 1, #found do
  rows[i] = job_records.shown(job_records.find(found[i]))
end
local next_one = call('ZRANGE', key, due, due, 'WITHSCORES')
return pack({NOW, rows, tonumber(next_one[2]) or false, max(0, job_records.latest() - NOW)})
