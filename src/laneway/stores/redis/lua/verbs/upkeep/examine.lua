-- needs: runtime/base, state/runs
-- Return the layout (false: there is no store), the latest instant at which anything was written (false: nothing was),
-- and by how much at most the clock was set back between two of the newest thousand acceptances.

local newest, set_back = 0, 0

local function see(at)
  newest = max(newest, tonumber(at) or 0)
end

local last = tonumber(call('HGET', PREFIX .. 'counters', 'number') or 0)
local fields = {}
for number = max(1, last - 999), last do
  fields[#fields + 1] = base.digits(number)
end
local before
for _, text in ipairs(#fields > 0 and call('HMGET', PREFIX .. 'runs', unpack(fields)) or {}) do
  if text then
    local accepted_at = unpacked(text)[22]
    see(accepted_at)
    set_back = max(set_back, (before or accepted_at) - accepted_at)
    before = accepted_at
  end
end
for state in pairs(TERMINAL) do
  see(call('ZREVRANGE', PREFIX .. 'ended:' .. state, 0, 0, 'WITHSCORES')[2])
end
for _, worker in ipairs(call('HKEYS', PREFIX .. 'workers')) do
  see(unpacked(call('HGET', PREFIX .. 'workers', worker))[3])
  for _, number in ipairs(call('SMEMBERS', PREFIX .. 'leases:' .. worker)) do
    local run = runs.get(tonumber(number))
    see(run and run.started_at)
  end
end
local beat = call('HGET', PREFIX .. 'heartbeat', 'all')
see(beat and unpacked(beat)[1])
local layout = call('HGET', PREFIX .. 'meta', 'layout')
return pack({layout and tonumber(layout), newest > 0 and newest, set_back})
