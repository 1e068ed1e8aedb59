-- needs: runtime/base, runtime/replies
-- Return the books of these sessions, the rules that operators have set, and whether they are paused.
local rows = {}
for i, name in ipairs(unpacked(ARGV[2])[1]) do
  local text = call('HGET', PREFIX .. 'sessions', name)
  rows[i] = replies.list({
    text or pack(false),
    call('HGET', PREFIX .. 'session_rules', name) or pack(false),
    pack(call('SISMEMBER', PREFIX .. 'paused_sessions', name) == 1),
  })
end
return replies.list(rows)
