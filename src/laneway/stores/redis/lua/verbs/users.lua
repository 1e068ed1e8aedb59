-- needs: base, replies
-- Return the seats and turns of all users by lane, what is set of users, and who is paused; of one user, if one is
-- given.
local user = unpacked(ARGV[2])[1]

local function picked(name, fields)
  local found = {}
  for _, field in ipairs(fields) do
    local value = call('HGET', PREFIX .. name, field)
    if value then
      found[#found + 1], found[#found + 2] = pack(field), value
    end
  end
  return replies.list(found)
end

local books, rows = call('HGETALL', PREFIX .. 'lanes'), {}
for i = 1, #books, 2 do
  local lane, seats, turns = books[i], 'seats:' .. books[i], 'turns:' .. books[i]
  if user then
    local fields = {}
    for j, pace in ipairs(unpacked(books[i + 1])[9]) do
      fields[j] = pace[1] .. ':' .. user
    end
    rows[#rows + 1] = replies.list({pack(lane), picked(seats, {user}), picked(turns, fields)})
  else
    rows[#rows + 1] = replies.list({pack(lane), replies.hash(seats), replies.hash(turns)})
  end
end
return replies.list({replies.list(rows), replies.texts('set_caps'), replies.members('paused_users')})
