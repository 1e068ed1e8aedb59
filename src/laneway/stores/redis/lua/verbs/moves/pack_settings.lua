-- needs: runtime/base, runtime/replies
-- Return what belongs to the store as a whole: counters, lanes and their counts, operators' settings, and circuits.

local counts = {}
for _, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
  counts[#counts + 1] = lane
  counts[#counts + 1] = call('HGETALL', PREFIX .. 'counts:' .. lane)
end
return replies.list({
  pack(call('HMGET', PREFIX .. 'counters', 'number', 'jobs_at')), replies.hash('lanes'), replies.hash('declared'),
  replies.hash('ruled'), pack(counts), replies.texts('set_caps'), replies.members('paused_users'),
  replies.members('paused_sessions'), replies.members('paused_tasks'), replies.members('disabled'),
  replies.hash('session_rules'), replies.hash('circuits'),
})
