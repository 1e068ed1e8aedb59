-- needs: runtime/base, state/run_records, state/runs
-- New runs: how they get their numbers, and what is written of them beside their records; and runs of other stores.

local new_runs = {}

local last_number  -- the newest acceptance number

base.at_begin(function()
  last_number = nil
end)

function new_runs.last()
  if not last_number then
    last_number = tonumber(call('HGET', PREFIX .. 'counters', 'number') or 0)
  end
  return last_number
end

-- Keep arguments that are too long for a record, given by its run's number as text.
function new_runs.keep_long(field, args)
  base.count('counters', 'long_args', 1)
  base.set_text('args', field, args)
end

-- Write what is kept of every run, and count it as there.
local function keep(run, id, args)
  local field = base.digits(run.number)
  base.count('blocks', base.digits(math.floor(run.number / 1000)), 1)
  base.count('states', run.state, 1)
  runs.add(field, run)
  base.set_text('ids', id, field)
  if run_records.is_long(args) then
    new_runs.keep_long(field, args)
  end
  return field
end

-- Make a run, with the next acceptance number, on no shelf, and count it as there. `args` is JSON text.
function new_runs.make(new, lane, due_at)
  last_number = new_runs.last() + 1
  base.count('counters', 'number', 1)
  local run = run_records.new(last_number, new, lane, due_at)
  local field = keep(run, new.id, new.args)
  if new.ties_text then
    base.set_text('ties', field, new.ties_text)
  end
  if new.follows then
    base.set_text('follows', field, pack(new.follows))
  end
  return run
end

-- Take in a run that another store had, under its number there and on no shelf: `facts` as pieces.lua has them.
function new_runs.bring(facts)
  local state = facts.state
  local new = {
    id = facts.id, task = facts.task, user = facts.user, session = facts.session, priority = facts.priority,
    args = facts.args,
  }
  local run = run_records.new(facts.number, new, facts.lane, facts.due_at)
  run.state, run.fence, run.attempt, run.crashes = state, facts.fence, facts.attempt, facts.crashes
  run.accepted_at, run.started_at, run.ended_at =
    facts.accepted_at, facts.started_at or false, facts.ended_at or false
  local field = keep(run, facts.id, facts.args)
  if facts.result then
    runs.set_result(run, facts.result)
  end
  if BESIDE[state] then
    call_later('SADD', state .. '_runs', field)
  elseif TERMINAL[state] then
    call_later('ZADD', 'ended:' .. state, base.digits(facts.ended_at), base.member(facts.number))
    if facts.streamed then
      call_later('ZADD', 'streamed', base.digits(facts.ended_at), base.member(facts.number))
    end
  end
  return run
end

-- Count so many runs as there, pending, behind those that are; return the number before the first of them.
function new_runs.count_in(count)
  local before = new_runs.last()
  last_number = before + count
  local first = before + 1
  while first <= last_number do
    local block = math.floor(first / 1000)
    local behind = min(last_number, block * 1000 + 999)
    base.count('blocks', base.digits(block), behind - first + 1)
    first = behind + 1
  end
  base.count('counters', 'number', count)
  base.count('states', 'pending', count)
  return before
end
