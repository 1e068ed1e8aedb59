-- needs: runtime/base, runtime/replies
-- Return the seats of all users by lane, the caps that operators have set, and the paused users; seats of one user
-- only, if one is given.
local user = unpacked(ARGV[2])[1]

local function seats_in(lane)
  local name = 'seats:' .. lane
  if not user then
    return replies.hash(name)
  end
  local seat = call('HGET', PREFIX .. name, user)
  return replies.list(seat and {pack(user), seat} or {})
end

local rows = {}
for i, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
  rows[i] = replies.list({pack(lane), seats_in(lane)})
end
return replies.list({replies.list(rows), replies.texts('set_caps'), replies.members('paused_users')})
