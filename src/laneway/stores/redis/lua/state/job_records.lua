-- needs: runtime/base, runtime/cached_hash, state/due_jobs, state/fire_records
-- The records of jobs, and the indexes of their names.
--
-- Hash `jobs`: id -> {version, call, created_at, changed_at, {state...}, {spec facts...}}, see STATE and FACTS below
-- and codec/jobs.py; what is None there is false here. Hash `jobspecs`: id -> the whole spec, JSON text that no script
-- reads. Hash `jobnames`: owner and name -> id. Sorted sets by name, then id: `jobs_listed`, and `jobs_of:<owner>`.
-- Hash `counters`, field `jobs_at`: the latest time at which a job was written.

local job_records = {}

local STATE = {
  'switch',  -- 0, 1, 2 for None, True, False: no rule here needs it
  'halted', 'next_at', 'fire_at', 'zone', 'held_until', 'held_by', 'probe', 'verdict', 'last_at', 'last_run',
  'last_state', 'last_error', 'failures', 'fired', 'skipped', 'missed', 'records',
  'spread_at',  -- when the next fire is due if nothing holds it back: `next_at` and its jitter
}
local FACTS = {
  'enabled',  -- by its spec, or by an operator
  'name', 'owner', 'task', 'source', 'delete_after_run',
  'breaker_failures',  -- 0: it has no breaker
  'breaker_length', 'breaker_disables', 'backoff', 'backoff_cap', 'alert_after',
  'period',  -- of a job whose fires are counted from the end of runs, else false
  'jitter',  -- with the period
}

local function values_of(names, job)
  local values = {}
  for i = 1, #names do
    values[i] = job[names[i]]
  end
  return values
end

local function set_values(names, values, job)
  for i = 1, #names do
    job[names[i]] = values[i] or false
  end
end

local cache = cached_hash.at('jobs', nil, function(job)
  return {job.version, job.call, job.created_at, job.changed_at, values_of(STATE, job), values_of(FACTS, job)}
end, function(packed, id)
  return job_records.read(id, packed)
end)

-- Return the job of its record.
function job_records.read(id, packed)
  local job = {
    id = id, version = packed[1], call = packed[2], created_at = packed[3], changed_at = packed[4],
  }
  set_values(STATE, packed[5], job)
  set_values(FACTS, packed[6], job)
  return job
end

-- Return the job as Python reads it: {id, version, call, created_at, changed_at, state, spec}.
function job_records.shown(job)
  return {
    job.id, job.version, job.call, job.created_at, job.changed_at, values_of(STATE, job),
    base.text('jobspecs', job.id),
  }
end

function job_records.find(id)
  return cache:find(id)
end

-- Read several jobs in one command.
function job_records.load(ids)
  cache:load(ids)
end

function job_records.is_on(job)
  return job.enabled and not job.halted
end

function job_records.set_state(job, state)
  set_values(STATE, state, job)
end

-- Writing ---------------------------------------------------------------------------------------------------------

-- Return the latest time at which a job was written.
function job_records.latest()
  return tonumber(base.text('counters', 'jobs_at') or 0)
end

function job_records.set_latest(at)
  base.set_text('counters', 'jobs_at', base.digits(at))
end

-- Write a job whose state has changed.
function job_records.put(job)
  cache:put(job.id, job)
  due_jobs.set(job.id, job.fire_at)
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

-- Return the member by which a job stands in the lists by name, then id.
function job_records.place(name, id)
  return name .. '\0' .. id
end

local function unlist(job)
  local place = job_records.place(job.name, job.id)
  base.set_text('jobnames', name_field(job), false)
  call_later('ZREM', 'jobs_listed', place)
  if job.owner then
    call_later('ZREM', 'jobs_of:' .. job.owner, place)
  end
end

-- Write a job that was created or changed; `before` is its old record.
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

-- Delete a job and its records.
function job_records.remove(job)
  unlist(job)
  cache:drop(job.id)
  base.set_text('jobspecs', job.id, false)
  due_jobs.set(job.id, false)
  fire_records.delete(job.id)
end
