-- needs: rules/control_call
-- Stop a session: {call, name, all, abandon}. Returns {cancelled, dropped}, ids in the order of acceptance.

base.allow_full()
local args = unpacked(ARGV[2])
local id, session, all, abandon = args[1], args[2], args[3], args[4]
control.call = id
local cancelled, dropped = {}, {}
local before = control_call.changed_by(id)
for _, run in ipairs(before) do
  local list = run.state == 'dropped' and dropped or cancelled
  list[#list + 1] = run
end
if #before == 0 then
  if all then
    for _, run in ipairs(control.queued(session)) do
      dropped[#dropped + 1] = run
    end
    for _, run in ipairs(control.future(session)) do
      dropped[#dropped + 1] = run
    end
    for i = #dropped, 1, -1 do
      control.drop(dropped[i], abandon and 'reset' or 'stopped')
    end
  end
  for _, run in ipairs(control.active(session)) do
    if (all or (#cancelled == 0 and run.request ~= 'cancel')) and not TERMINAL[run.state]
        and control.cancel(run, all, abandon) then
      cancelled[#cancelled + 1] = run
    end
  end
  local numbers = {}
  for _, list in ipairs({cancelled, dropped}) do
    for _, run in ipairs(list) do
      numbers[#numbers + 1] = run.number
    end
  end
  control_call.remember(id, numbers)
end

local function ids(list)
  local found = {}
  table.sort(list, function(one, other) return one.number < other.number end)
  for i, run in ipairs(list) do
    found[i] = run.id
  end
  return found
end

base.wrote_events = true
wakeups.wake()
base.flush()
return pack({ids(cancelled), ids(dropped)})
