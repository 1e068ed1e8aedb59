-- needs: runtime/base, runtime/cached_hash
-- gives: circuits, kept_circuits, FOREVER
-- The circuits of tasks: which of them keeps a run from starting, and what the end of a lease does to them. This
-- restates core/queue/circuits.py and core/records/breakers.py.
--
-- Hash `circuits`: key -> {failures, until, number, fence}. `until` is false while the circuit is closed, and FOREVER
-- if it does not close by itself; number and fence are the probe's lease, false if there is none. A key is a task, or a
-- task, a line break and a user. Set `open`: the keys of circuits that are not closed.

local circuits = {}
local FOREVER = -1

local kept_circuits = cached_hash.at('circuits', nil, function(circuit)
  if circuit[1] == 0 and not circuit[2] and not circuit[3] then
    return nil
  end
  return circuit
end)

function circuits.key(task, user)
  return task .. '\n' .. (user or '')
end

-- Return the task of a key.
function circuits.task_of(key)
  return match(key, '^[^\n]*')
end

function circuits.get(key)
  return kept_circuits:find(key) or {0, false, false, false}
end

function circuits.put(key, circuit)
  kept_circuits:put(key, circuit)
  base.put_in('open', key, circuit[2] ~= false)
end

-- Close a circuit.
function circuits.close(key)
  circuits.put(key, {0, false, false, false})
end

-- Return the tasks that have a circuit that is not closed: only their runs need a check. A table of trues.
function circuits.guarded()
  local tasks = {}
  for key in pairs(base.set('open')) do
    tasks[circuits.task_of(key)] = true
  end
  return tasks
end

-- Return whether a circuit of the task is not closed.
function circuits.is_guarded(task)
  return next(base.set('open')) ~= nil and circuits.guarded()[task] or false
end

local function is_open(circuit)
  return circuit[2] == FOREVER or (circuit[2] and NOW < circuit[2])
end

-- Return whether the circuit lets one more run start.
function circuits.lets_start(key)
  local circuit = circuits.get(key)
  return not circuit[2] or (not is_open(circuit) and not circuit[3])
end

-- Return the key of the circuit that keeps runs of this task and user from starting, if there is one.
function circuits.holds(task, user)
  if not circuits.lets_start(task) then
    return task
  end
  local key = circuits.key(task, user)
  return not circuits.lets_start(key) and key or nil
end

-- Note that a run starts now, with its next fence. Return the keys of circuits that let no more runs start after it.
function circuits.start(run)
  local full = {}
  for _, key in ipairs({run.task, circuits.key(run.task, run.user)}) do
    local circuit = circuits.get(key)
    if circuit[2] and not is_open(circuit) and not circuit[3] then
      circuits.put(key, {circuit[1], circuit[2], run.number, run.fence + 1})
      full[#full + 1] = key
    end
  end
  return full
end

local function is_probe(circuit, run)
  return circuit[3] == run.number and circuit[4] == run.fence
end

local function let_go(circuit, run)
  return is_probe(circuit, run) and {circuit[1], circuit[2], false, false} or circuit
end

local function charged(circuit, charge, run)
  if circuit[2] and not is_probe(circuit, run) then
    return circuit  -- a run that was started before it opened proves nothing
  end
  if not charge.failed then
    return {0, false, false, false}
  end
  local failures = circuit[1] + 1
  local opens = circuit[2] or failures >= charge.failures
  local till = opens and (charge.disable and FOREVER or NOW + charge.length)
  return {failures, till or false, false, false}
end

-- Note how the run's lease has ended. `charge` is {failed, failures, length, disable, per_user}, nil if the end counts
-- for no circuit. Return whether the task is to be disabled.
function circuits.ended(run, charge, succeeded)
  local disables = false
  local by_user = circuits.key(run.task, run.user)
  local charged_key = charge and (charge.per_user and by_user or run.task)
  for _, key in ipairs({run.task, by_user}) do
    local circuit, after = circuits.get(key), nil
    if key == charged_key then
      after = charged(circuit, charge, run)
      disables = after[2] == FOREVER
    elseif succeeded and is_probe(circuit, run) then
      after = {0, false, false, false}  -- its probe succeeded, but the task has no such breaker any more
    else
      after = let_go(circuit, run)
    end
    if after ~= circuit then
      circuits.put(key, after)
    end
  end
  return disables
end
