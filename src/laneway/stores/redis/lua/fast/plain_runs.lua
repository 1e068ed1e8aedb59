-- needs: runtime/base, state/run_records, state/runs, state/logs, rules/queue/turns, rules/queue/admission
-- needs: state/workers
-- The fast path of starts and successes: what a status becomes is computed once, and every run with that status gets
-- the new status in front of the rest of its record, which is not parsed.
--
-- It is for runs without rare fields (requests, messages, ties, waits), while no breaker is open. All others are parsed
-- and go through rules/leases.lua and rules/queue/claim.lua, which would do the same to these.

local plain_runs = {}

local starts, successes = {}, {}  -- by status: what it becomes; false if the run has to be parsed
local is_applicable  -- no breaker is open

base.at_begin(function()
  starts, successes, is_applicable = {}, {}, nil
end)

local function applies()
  if is_applicable == nil then
    is_applicable = next(base.set('open')) == nil
  end
  return is_applicable
end

local function started(status, worker)
  local drafts = logs.started(worker.id)
  if status.state ~= 'pending' or status.rare or has(status.kind, ASIDE) or not logs.fit(status, drafts) then
    return false
  end
  local run = run_records.with_status(status)
  run.state, run.kind, run.shelf, run.worker, run.holder = 'running', AGAIN, false, worker.id, worker.id
  run.started_at, run.fence = NOW, run.fence + 1
  logs.write(run, drafts)
  return {
    text = run_records.status_text(run), fence = run.fence,
    lease = pack(run.fence, run.attempt, run.crashes, worker.id),  -- the form for the worker
  }
end

local function succeeded(status, worker, drafts)
  if status.state ~= 'running' or status.rare or status.holder ~= worker.id or not logs.fit(status, drafts) then
    return false
  end
  local run = run_records.with_status(status)
  run.state, run.ended_at, run.worker, run.holder, run.crashes = 'succeeded', NOW, false, false, 0
  logs.write(run, drafts)
  return {text = run_records.status_text(run), fence = status.fence}
end

-- Return what a run with this status and record becomes when it starts; false if it has to be parsed.
function plain_runs.start_of(worker, status, text)
  if not text or not applies() or run_records.has_no_args(text) then
    return false
  end
  local after = starts[status]
  if after == nil then
    after = started(status, worker)
    starts[status] = after
  end
  return after
end

-- Write the record of a run that is counted as started; return the run in the form for the worker.
function plain_runs.start(field, text, status, labels, after)
  local behind = run_records.behind_status(text, status)
  runs.rewrite(field, run_records.joined(after.text, labels, behind))
  return runs.plain_handed(behind, after.lease)
end

local function success_of(worker, status, drafts)
  local after = successes[status]
  if after == nil then
    after = succeeded(status, worker, drafts)
    successes[status] = after
  end
  return after
end

local function prefetch(fields)
  local all_labels = {}
  runs.prefetch(fields)
  for i = 1, #fields do
    local _, labels, _, text = runs.peek(fields[i])
    if text and (labels.user or labels.session) then
      all_labels[#all_labels + 1] = labels
    end
  end
  admission.prefetch(all_labels)
end

-- Let these runs succeed: lists of numbers as texts, fences and results (false: none). `more` has by place what else is
-- to be written, `drafts` are the events. A run that has to be parsed is left to `settle(place)`, in its turn.
function plain_runs.succeed(worker, fields, fences, values, more, drafts, settle)
  prefetch(fields)
  local ended, by_lane = {}, {}
  for i = 1, #fields do
    local field, value = fields[i], values[i]
    local status, labels, _, text = runs.peek(field)
    local after = text and applies() and not more[i] and success_of(worker, status, drafts)
    if after and after.fence == fences[i] and not (value and run_records.is_long(value)) then
      runs.rewrite(field, run_records.ended(text, status, labels, after.text, value))
      ended[#ended + 1], by_lane[labels.lane] = field, (by_lane[labels.lane] or 0) + 1
      admission.free(labels)
      admission.ended(labels, tonumber(field))
    else
      settle(i)
    end
  end
  runs.count_ended('succeeded', ended)
  workers.move_all(worker.id, ended, false)
  for lane, count in pairs(by_lane) do
    workers.count(worker.id, lane, -count)
  end
end
