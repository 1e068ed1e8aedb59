-- needs: runtime/base, runtime/cached_hash, state/due_jobs, state/fire_records
-- The book of jobs: what is kept of them, and under which names.
--
-- Hash `jobs`: id -> {version, call, created_at, changed_at, {state...}, {said...}}, see STATE and SAID below and
-- jobs.py; what is None there is false here. Hash `jobspecs`: id -> the spec, JSON text that no script reads.
-- Hash `jobnames`: owner and name -> id. Sorted sets by name, then id: `jobs_listed`, and `jobs_of:<owner>`.
-- Hash `counters`, field `jobs_at`: the latest time that a job was written at.

local job_records = base.lazily(function(job_records)
local STATE = {
  'switch',  -- 0, 1, 2 for None, True, False: no rule here needs it
  'halted', 'next_at', 'fire_at', 'zone', 'held_until', 'held_by', 'probe', 'verdict', 'last_at', 'last_run',
  'last_state', 'last_error', 'failures', 'fired', 'skipped', 'missed', 'records',
  'spread_at',  -- when the next fire is due if nothing holds it back: `next_at` and its jitter
}
local SAID = {
  'enabled',  -- by its spec, or by an operator
  'name', 'owner', 'task', 'source', 'delete_after_run',
  'breaker_failures',  -- 0: it has no breaker
  'breaker_length', 'breaker_disables', 'backoff', 'backoff_cap', 'alert_after',
  'period',  -- of one whose fires are counted from the end of runs, else false
  'jitter',  -- with the period
}

local function listed(names, job)
  local values = {}
  for i = 1, #names do
    values[i] = job[names[i]]
  end
  return values
end

local function named(names, values, job)
  for i = 1, #names do
    job[names[i]] = values[i] or false
  end
end

local kept_jobs = cached_hash.at('jobs', nil, function(job)
  return {job.version, job.call, job.created_at, job.changed_at, listed(STATE, job), listed(SAID, job)}
end, function(packed, id)
  return job_records.read(id, packed)
end)

-- Return a job of what is kept of it.
function job_records.read(id, packed)
  local job = {
    id = id, version = packed[1], call = packed[2], created_at = packed[3], changed_at = packed[4],
  }
  named(STATE, packed[5], job)
  named(SAID, packed[6], job)
  return job
end

-- Return the job as Python reads it: {id, version, call, created_at, changed_at, state, spec}.
function job_records.shown(job)
  return {
    job.id, job.version, job.call, job.created_at, job.changed_at, listed(STATE, job), base.text('jobspecs', job.id),
  }
end

function job_records.find(id)
  return kept_jobs:find(id)
end

-- Read several at once, because they will be asked for.
function job_records.load(ids)
  kept_jobs:load(ids)
end

function job_records.is_on(job)
  return job.enabled and not job.halted
end

-- Let the job's state be this.
function job_records.set_state(job, state)
  named(STATE, state, job)
end

-- Writing ------------------------------------------------------------------------------------------------------------

-- Return the latest time that a job was written at.
function job_records.latest()
  return tonumber(base.text('counters', 'jobs_at') or 0)
end

function job_records.set_latest(at)
  base.set_text('counters', 'jobs_at', base.digits(at))
end

-- Write a job that was moved.
function job_records.put(job)
  kept_jobs:put(job.id, job)
  due_jobs.move(job.id, job.fire_at)
  job_records.set_latest(max(job_records.latest(), NOW))
end

local function name_field(job)
  return (job.owner and #job.owner .. ':' .. job.owner or ':') .. job.name
end

-- Return the id of another job that has the name, if there is one.
function job_records.namesake(job)
  local id = base.text('jobnames', name_field(job))
  return id and id ~= job.id and id or nil
end

-- Where a job stands in lists by name, then id.
function job_records.place(name, id)
  return name .. '\0' .. id
end

-- Tell whether a text is before another one by bytes, as in sorted sets: Lua's own order is that of the server's
-- language.
function job_records.is_before(text, other)
  for i = 1, min(#text, #other) do
    local byte, other_byte = byte(text, i), byte(other, i)
    if byte ~= other_byte then
      return byte < other_byte
    end
  end
  return #text < #other
end

local function unlist(job)
  local place = job_records.place(job.name, job.id)
  base.set_text('jobnames', name_field(job), false)
  call_later('ZREM', 'jobs_listed', place)
  if job.owner then
    call_later('ZREM', 'jobs_of:' .. job.owner, place)
  end
end

-- Write a job that somebody made or changed; `before` is what it was.
function job_records.list(job, spec, before)
  if before then
    unlist(before)
  end
  local place = job_records.place(job.name, job.id)
  base.set_text('jobnames', name_field(job), job.id)
  call_later('ZADD', 'jobs_listed', 0, place)
  if job.owner then
    call_later('ZADD', 'jobs_of:' .. job.owner, 0, place)
  end
  base.set_text('jobspecs', job.id, spec)
  job_records.put(job)
end

-- Forget a job and its records.
function job_records.remove(job)
  unlist(job)
  kept_jobs:drop(job.id)
  base.set_text('jobspecs', job.id, false)
  due_jobs.move(job.id, false)
  fire_records.forget(job.id)
end

end)
