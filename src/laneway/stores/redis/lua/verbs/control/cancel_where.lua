-- needs: rules/control_call
-- Cancel runs that fit: {call, wanted, after, till, limit}. They have numbers greater than `after` and up to `till`;
-- `wanted` is a table of state, task, lane, user, session. It looks at some thousand numbers; the caller goes on behind
-- them. Returns {changed, last, seen}: how many, the number of the last one, and the cursor, false at the end.
--
-- The caller may repeat a call from its beginning at any time: runs that it has changed before count as changed, and
-- runs that were accepted after its first part are not looked at (`sweep:<call>`).

base.allow_full()
local PAGE = 4000
local args = unpacked(ARGV[2])
local id, wanted, after, limit = args[1], args[2], args[3], args[5]
local till = tonumber(call('GET', PREFIX .. 'sweep:' .. id) or nil)
if not till then
  till = tonumber(call('HGET', PREFIX .. 'counters', 'number') or 0)
  if args[4] and args[4] < till then
    till = args[4]
  end
  call_later('SET', 'sweep:' .. id, base.digits(till), 'EX', 3600)
end
local last, numbers = min(till, after + PAGE), {}
for number = after + 1, last do
  numbers[#numbers + 1] = number
end
runs.load(numbers)

local function fits(run)
  local session = run.session or (run.ties and run.ties.session) or false
  return (not wanted.state or wanted.state == run.state) and (not wanted.task or wanted.task == run.task)
    and (not wanted.lane or wanted.lane == run.lane) and (not wanted.user or wanted.user == run.user)
    and (not wanted.session or wanted.session == session)
end

control.call = id
local changed, newest = 0, false
for _, number in ipairs(numbers) do
  if changed == limit then
    break
  end
  local run = runs.get(number)
  if run and (run.call == id or (not TERMINAL[run.state] and fits(run) and control.cancel(run))) then
    changed, newest = changed + 1, number
  end
end
base.wrote_events = true
wakeups.wake()
base.flush()
return pack({changed, newest, changed < limit and last < till and last})
