-- needs: runtime/base, state/job_records
-- Read jobs that are due, by when and id: {limit, at, id}, the last two being what they are behind. Answers
-- {now, jobs, when the first is due that is not due yet, by how much now is behind the latest time}. It writes nothing.

local args = unpacked(ARGV[2])
local limit, at, id = args[1], args[2], args[3]
local key, now = PREFIX .. 'jobs_due', base.digits(NOW)

-- Return how many are not behind. Of those that are due at `at` it looks at few: very many may be due at one instant.
local function passed()
  local low = call('ZCOUNT', key, '-inf', '(' .. base.digits(at))
  local high = call('ZCOUNT', key, '-inf', base.digits(at))
  while low < high do
    local middle = math.floor((low + high) / 2)
    if not job_records.is_before(id, call('ZRANGE', key, middle, middle)[1]) then
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
