-- needs: runtime/base
-- When jobs are due. A file of its own, because every step needs the soonest and nothing else of jobs.
--
-- Sorted set `jobs_due`: ids by `fire_at`.

local due_jobs = {}

local changes = {}  -- by id: the new time, false if the job is not due any more

base.at_begin(function()
  changes = {}
end)

-- Set when a job is due; false: never.
function due_jobs.set(id, fire_at)
  changes[id] = fire_at
end

-- Return when the first job is due.
function due_jobs.soonest()
  local soonest, read = nil, 0
  if base.is_absent('jobs_due') and next(changes) == nil then
    return nil
  end
  repeat
    local page = call('ZRANGE', PREFIX .. 'jobs_due', read, read + 31, 'WITHSCORES')
    for i = 1, #page, 2 do
      if changes[page[i]] == nil then
        soonest = tonumber(page[i + 1])
        break
      end
    end
    read = read + 32
  until soonest or #page < 64
  for _, fire_at in pairs(changes) do
    if fire_at and (not soonest or fire_at < soonest) then
      soonest = fire_at
    end
  end
  return soonest
end

-- Return whether the first job is due sooner than before this call.
function due_jobs.is_sooner()
  if next(changes) == nil then
    return false
  end
  local first, soonest = call('ZRANGE', PREFIX .. 'jobs_due', 0, 0, 'WITHSCORES'), due_jobs.soonest()
  return soonest ~= nil and (not first[1] or soonest < tonumber(first[2]))
end

base.at_end(function()
  for id, fire_at in pairs(changes) do
    if fire_at then
      call('ZADD', PREFIX .. 'jobs_due', base.digits(fire_at), id)
    else
      call('ZREM', PREFIX .. 'jobs_due', id)
    end
  end
end)
