-- needs: runtime/base, state/run_records, state/runs
-- New runs: their numbers, and what is written beside their records; and runs that come from another store.

local new_runs = {}

local last_number  -- the newest acceptance number

base.at_begin(function()
  last_number = nil
end)

-- Return the newest acceptance number.
function new_runs.last()
  if not last_number then
    last_number = tonumber(call('HGET', PREFIX .. 'counters', 'number') or 0)
  end
  return last_number
end

-- Write arguments that are too long for a record; `field` is the run's number as text.
function new_runs.write_long(field, args)
  base.count('counters', 'long_args', 1)
  base.set_text('args', field, args)
end

-- Write what every run has, and count it.
local function add(run, id, args)
  local field = base.digits(run.number)
  base.count('blocks', base.digits(math.floor(run.number / 1000)), 1)
  base.count('states', run.state, 1)
  runs.add(field, run)
  base.set_text('ids', id, field)
  if run_records.is_long(args) then
    new_runs.write_long(field, args)
  end
  return field
end

-- Make a run with the next acceptance number, on no shelf.
function new_runs.make(new, lane, due_at)
  last_number = new_runs.last() + 1
  base.count('counters', 'number', 1)
  local run = run_records.new(last_number, new, lane, due_at)
  local field = add(run, new.id, new.args)
  if new.ties_text then
    base.set_text('ties', field, new.ties_text)
  end
  if new.follows then
    base.set_text('follows', field, pack(new.follows))
  end
  return run
end

-- Make a run that comes from another store, under its number there, on no shelf; `facts` are those of admin/pieces.lua.
function new_runs.unpack(facts)
  local state = facts.state
  local new = {
    id = facts.id, task = facts.task, user = facts.user, session = facts.session, priority = facts.priority,
    args = facts.args,
  }
  local run = run_records.new(facts.number, new, facts.lane, facts.due_at)
  run.state, run.fence, run.attempt, run.crashes = state, facts.fence, facts.attempt, facts.crashes
  run.accepted_at, run.started_at, run.ended_at =
    facts.accepted_at, facts.started_at or false, facts.ended_at or false
  local field = add(run, facts.id, facts.args)
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

-- Count so many new pending runs, and take their numbers; return the number before the first of them.
function new_runs.take_numbers(count)
  local before = new_runs.last()
  last_number = before + count
  local first = before + 1
  while first <= last_number do
    local block = math.floor(first / 1000)
    local last = min(last_number, block * 1000 + 999)
    base.count('blocks', base.digits(block), last - first + 1)
    first = last + 1
  end
  base.count('counters', 'number', count)
  base.count('states', 'pending', count)
  return before
end
