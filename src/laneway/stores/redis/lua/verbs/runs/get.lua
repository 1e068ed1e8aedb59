-- needs: runtime/base, runtime/replies
-- Return the run with this id, in a list; an empty list if there is none.
local number, record = replies.find(unpacked(ARGV[2])[1])
return replies.runs({number or nil}, {record or nil})
