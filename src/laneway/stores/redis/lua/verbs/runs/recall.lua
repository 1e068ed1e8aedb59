-- needs: runtime/base, runtime/replies
-- Return a run's memos, unordered, and what it waits for, or waited for last.
local id = unpacked(ARGV[2])[1]
local number, record = replies.find(id)
if not number then
  return replies.unknown()
end
local rare = unpacked(record)[15] or {}
return replies.list({replies.list(call('HVALS', PREFIX .. 'memos:' .. number)), pack(rare.wait or false)})
