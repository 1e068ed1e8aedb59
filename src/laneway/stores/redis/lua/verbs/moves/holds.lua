-- needs: runtime/base, runtime/cached_hash, state/workers
-- Count what the store has: runs, jobs, keys, operators' settings, circuits, live incarnations.

local settings, live = 0, 0
for _, name in ipairs({'set_caps', 'ruled', 'session_rules'}) do
  settings = settings + call('HLEN', PREFIX .. name)
end
for _, name in ipairs({'paused_sessions', 'paused_users', 'paused_tasks', 'disabled'}) do
  settings = settings + call('SCARD', PREFIX .. name)
end
local lanes = cached_hash.at('lanes'):all()
for name, lane in pairs(lanes) do
  if lane[6] and call('HEXISTS', PREFIX .. 'ruled', name) == 0 then
    settings = settings + 1
  end
end
for _, worker in ipairs(workers.all()) do
  live = live + (worker.left and 0 or 1)
end
return pack({
  call('HLEN', PREFIX .. 'runs'), call('HLEN', PREFIX .. 'jobs'), call('HLEN', PREFIX .. 'keys'), settings,
  call('HLEN', PREFIX .. 'circuits'), live,
})
