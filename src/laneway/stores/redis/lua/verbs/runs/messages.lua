-- needs: runtime/base, runtime/replies
-- Return the messages that a run took, in the order in which they came.
local id = unpacked(ARGV[2])[1]
local number = replies.find(id)
if not number then
  return replies.unknown()
end
return replies.list(call('LRANGE', PREFIX .. 'taken:' .. number, 0, -1))
