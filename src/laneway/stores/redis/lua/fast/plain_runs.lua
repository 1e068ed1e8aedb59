-- needs: runtime/base, state/run_records, state/runs, state/logs, rules/queue/turns, rules/queue/admission
-- needs: state/workers
-- The fast path of starts and successes: what a state becomes is worked out once, and every run that has it gets the new
-- state in front of the rest of its record, which nobody reads.
--
-- It is for runs with nothing requested, no messages, ties or waits (all of which are `rare`), while no breaker is open.
-- All others are read and go through rules/leases.lua and rules/queue/claim.lua, which would do the same to these.

local plain_runs = {}

local started_states, ended_states = {}, {}  -- by state: what it becomes; false if the run has to be read
local is_quiet  -- no breaker is open

base.at_begin(function()
  started_states, ended_states, is_quiet = {}, {}, nil
end)

local function applies()
  if is_quiet == nil then
    is_quiet = next(base.set('open')) == nil
  end
  return is_quiet
end

local function started(is, worker)
  local told = logs.started(worker.id)
  if is.state ~= 'pending' or is.rare or has(is.kind, ASIDE) or not logs.fit(is, told) then
    return false
  end
  local run = run_records.alone(is)
  run.state, run.kind, run.shelf, run.worker, run.holder = 'running', AGAIN, false, worker.id, worker.id
  run.started_at, run.fence = NOW, run.fence + 1
  logs.say(run, told)
  return {
    text = run_records.state_text(run), fence = run.fence,
    told = pack(run.fence, run.attempt, run.crashes, worker.id),  -- as the worker gets it
  }
end

local function succeeded(is, worker, told)
  if is.state ~= 'running' or is.rare or is.holder ~= worker.id or not logs.fit(is, told) then
    return false
  end
  local run = run_records.alone(is)
  run.state, run.ended_at, run.worker, run.holder, run.crashes = 'succeeded', NOW, false, false, 0
  logs.say(run, told)
  return {text = run_records.state_text(run), fence = is.fence}
end

-- Return what a run becomes by a start, given by its number as text; false if it has to be read.
function plain_runs.start_of(worker, is, text)
  if not text or not applies() or run_records.has_no_args(text) then
    return false
  end
  local after = started_states[is]
  if after == nil then
    after = started(is, worker)
    started_states[is] = after
  end
  return after
end

-- Write that a run is started, of which all else is done; return it as the worker gets it.
function plain_runs.start(field, text, is, of, after)
  runs.rewrite(field, run_records.with_state(text, is, of, after.text))
  return runs.handed_text(run_records.behind_state(text, is), after.told)
end

local function success_of(worker, is, told)
  local after = ended_states[is]
  if after == nil then
    after = succeeded(is, worker, told)
    ended_states[is] = after
  end
  return after
end

-- Read what the ends of these runs lead to.
local function read_ahead(fields)
  local owners = {}
  runs.offer(fields)
  for i = 1, #fields do
    local _, of, _, text = runs.glance(fields[i])
    if text and (of.user or of.session) then
      owners[#owners + 1] = of
    end
  end
  admission.read_ahead(owners)
end

-- Let these runs succeed: lists of their numbers as texts, fences and results (false: none). `more` tells by place what
-- else is to be written, `told` the events. One that has to be read is left to `settle(place)`, in its turn.
function plain_runs.succeed(worker, fields, fences, values, more, told, settle)
  read_ahead(fields)
  local ended, by_lane = {}, {}
  for i = 1, #fields do
    local field, value = fields[i], values[i]
    local is, of, _, text = runs.glance(field)
    local after = text and applies() and not more[i] and success_of(worker, is, told)
    if after and after.fence == fences[i] and not (value and run_records.is_long(value)) then
      runs.rewrite(field, run_records.with_result(run_records.with_state(text, is, of, after.text), value))
      ended[#ended + 1], by_lane[of.lane] = field, (by_lane[of.lane] or 0) + 1
      admission.free(of)
      admission.ended(of, tonumber(field))
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
