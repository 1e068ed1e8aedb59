-- needs: runtime/base
-- Return the names with this prefix of sessions that are not idle or have settings; some may come twice.
local prefix, names = unpacked(ARGV[2])[1], {}
for _, found in ipairs({
  call('HKEYS', PREFIX .. 'sessions'), call('HKEYS', PREFIX .. 'session_rules'),
  call('SMEMBERS', PREFIX .. 'paused_sessions'),
}) do
  for _, name in ipairs(found) do
    if sub(name, 1, #prefix) == prefix then
      names[#names + 1] = name
    end
  end
end
return pack(names)
