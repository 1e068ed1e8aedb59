-- needs: rules/lifecycle/acceptance, rules/wakeups
-- What the verbs that cancel, pause, resume and answer runs have in common.

local control_call = {}

function control_call.wrong_state(state, move)
  return base.refusal('wrong_state', state, move)
end

-- Wake workers and flush; return the run as the reply.
function control_call.finish(run)
  base.wrote_events = true
  wakeups.wake()
  base.flush()
  return pack(runs.shown(run))
end

-- Change the run that a call is about: {call, id, ...}. Return the run as the reply, or what `change(run, args)`
-- returns instead. A repeated call changes nothing.
function control_call.make(change)
  base.allow_full()
  local args = unpacked(ARGV[2])
  local run = runs.named(args[2])
  if not run then
    return base.refusal('unknown_run')
  end
  control.call = args[1]
  local refused = run.call ~= args[1] and change(run, args) or nil
  return refused or control_call.finish(run)
end

-- Note which runs a call about many runs has changed, so that a repeat returns the same.
function control_call.remember(call_id, numbers)
  if #numbers > 0 then
    base.at_this_end(function()
      base.send('RPUSH', PREFIX .. 'call:' .. call_id, numbers)
      call('EXPIRE', PREFIX .. 'call:' .. call_id, 3600)
    end)
  end
end

-- Return the runs that a call about many runs has changed and that no other call has changed since.
function control_call.changed_by(call_id)
  local numbers, found = {}, {}
  for i, number in ipairs(call('LRANGE', PREFIX .. 'call:' .. call_id, 0, -1)) do
    numbers[i] = tonumber(number)
  end
  table.sort(numbers)
  for _, run in ipairs(runs.all_of(numbers)) do
    if run.call == call_id then
      found[#found + 1] = run
    end
  end
  return found
end
