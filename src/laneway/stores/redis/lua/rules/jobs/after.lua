-- needs: runtime/base, state/due_jobs, state/fire_records, state/job_records, rules/common/jitter
-- gives: job_after
-- What a job becomes after a fire, and after the end of a run of it. This restates core/jobs/after.py, and what it
-- needs of core/jobs/failure_hold.py and plan.py; names are the same.

local job_after = {}

local ERROR_LIMIT = 4000  -- characters
local LONGEST_HOLD = 20 * 366 * 86400 * 1000000
local HALTS = {succeeded = 'done', failed = 'failed', cancelled = 'cancelled', dropped = 'cancelled'}

-- Planning and holding back ---------------------------------------------------------------------------------------

local function due_again(job)
  job.fire_at = job.next_at and max(job.spread_at, job.held_until or 0)
end

-- Plan the next fire of a job whose fires are counted from the end of runs.
local function plan_from_now(job)
  job.next_at = NOW + job.period
  job.spread_at = jitter.spread(job.id, job.next_at, job.jitter)
  due_again(job)
end

local function hold(job, length, by)
  job.held_until, job.held_by = NOW + length, by
end

-- The probe came to neither success nor failure: let the next fire be one.
local function untried(job)
  job.probe = false
  hold(job, 0, 'breaker_open')
end

-- Count one more failure in a row.
local function charge(job)
  job.failures = job.failures + 1
  if job.breaker_failures > 0 and job.failures >= job.breaker_failures then
    if job.breaker_disables then
      job.halted = 'breaker'
    else
      hold(job, job.breaker_length, 'breaker_open')
    end
  elseif job.backoff > 0 then
    local longest = job.backoff_cap > 0 and job.backoff_cap or LONGEST_HOLD
    hold(job, min(job.backoff * 2 ^ min(job.failures - 1, 40), longest), 'backoff')
  end
end

-- The end of a run ------------------------------------------------------------------------------------------------

-- Return the first ERROR_LIMIT characters of a text in UTF-8.
local function cut(text)
  if #text <= ERROR_LIMIT then
    return text
  end
  local at, left = 1, ERROR_LIMIT
  while left > 0 and at <= #text do
    local byte = byte(text, at)
    at = at + (byte < 0x80 and 1 or byte < 0xe0 and 2 or byte < 0xf0 and 3 or 4)
    left = left - 1
  end
  return sub(text, 1, at - 1)
end

local function plan_after_end(job, state, is_newest)
  if not job_records.is_on(job) then
    if job.halted and job.halted ~= 'breaker' and is_newest then
      job.halted = HALTS[state]
    end
    job.next_at, job.fire_at = false, false
  elseif not job.next_at and job.period then
    plan_from_now(job)
  elseif not job.next_at and is_newest then
    job.halted = HALTS[state]
  else
    due_again(job)
  end
end

-- Update the job of a run that has ended; `message` is that of the run's error, if it has one.
function job_after.ended(run, message)
  local job, state = job_records.find(run.ties.job), run.state
  if not job then
    return
  end
  local is_newest, error_text = run.id == job.last_run, message and cut(message) or false
  local has_fires_left = job.next_at or (not job_records.is_on(job) and not job.halted)
  if state == 'succeeded' and job.delete_after_run and not (run.ties.by_hand and has_fires_left) then
    job_records.remove(job)
    return
  end
  job.version = job.version + 1
  if job.probe == run.id then
    if state == 'succeeded' or state == 'failed' then
      job.probe = false
    else
      untried(job)
    end
  end
  if is_newest then
    job.last_state, job.last_error = state, error_text
  end
  if state == 'succeeded' then
    job.failures, job.held_until, job.held_by = 0, false, false
  elseif state == 'failed' then
    charge(job)
    if job.failures == job.alert_after then
      job.records = job.records + 1
      fire_records.record(job.id, {'failing', NOW, NOW, job.failures, false, error_text, false, NOW, job.records})
    end
  end
  plan_after_end(job, state, is_newest)
  job_records.put(job)
end

-- A fire ----------------------------------------------------------------------------------------------------------

-- The fire made no run, so no end of a run will plan the next fire: do that now if it is needed.
local function leave_alone(job)
  if not job_records.is_on(job) or job.next_at or (job.last_run and not job.last_state) then
    return  -- it has a next fire, or the end of an earlier run will plan one
  end
  if job.period then
    plan_from_now(job)
  else
    job.halted = 'skipped'
  end
end

-- Return the record of a run that was submitted, without its number.
local function record_of(run, receipt, by_hand)
  local at = run.ties.at
  if receipt[1] == 'accepted' then
    local reason = by_hand and 'by_hand' or not run.ties.overlap and 'caught_up' or false
    return {'fired', at, at, 1, false, reason, run.id, 0, 0}
  end
  local busy = receipt[3] == 'session_busy' or receipt[3] == 'session_full'
  return {'skipped', at, at, 1, false, busy and 'overlap' or receipt[3] or false, false, 0, 0}
end

-- Return whether a record says the same as the last one, of later fires.
local function goes_on(last, record)
  local kind = record[1]
  return (kind == 'skipped' or kind == 'missed') and last[1] == kind and last[6] == record[6] and last[3] < record[2]
end

local COUNTED = {fired = true, skipped = true, missed = true}

local function write_down(job, record)
  local last, kind = fire_records.newest(job.id), record[1]
  if COUNTED[kind] then
    job[kind] = job[kind] + record[4]
  end
  if last and goes_on(last, record) then
    record = {
      kind, last[2], record[3], last[4] + record[4], last[5] or record[5], last[6], last[7], NOW, last[9],
    }
  else
    job.records = job.records + 1
    record = {kind, record[2], record[3], record[4], record[5], record[6], record[7], NOW, job.records}
  end
  fire_records.record(job.id, record)
end

-- Write a firing of a job. `firing` is {state, runs, records, by_hand}: `state` may be false, `records` have no numbers
-- yet. `receipts` are those of the runs (see acceptance.lua), false for a run that existed before.
function job_after.applied(job, firing, receipts)
  if firing.state then
    job_records.set_state(job, firing.state)
  end
  local records, made = firing.records, nil
  for i, run in ipairs(firing.runs) do
    local receipt = receipts[i]
    local is_made = receipt and receipt[1] == 'accepted'
    if job.probe == run.id and not is_made then
      untried(job)
    end
    if receipt and run.ties and run.ties.job then
      records[#records + 1] = record_of(run, receipt, firing.by_hand)
      made = is_made and run or made
    end
  end
  if made then
    job.last_at, job.last_run, job.last_state, job.last_error = made.ties.at, made.id, false, false
  elseif #firing.runs > 0 then
    leave_alone(job)
  end
  for _, record in ipairs(records) do
    write_down(job, record)
  end
  job.version = job.version + 1
  job_records.put(job)
end
