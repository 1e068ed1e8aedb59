-- needs: runtime/base, runtime/replies, state/runs, state/sessions
-- Return a hash of packed values: {name}.
local name = unpacked(ARGV[2])[1]
return name == 'sessions' and replies.hash(name, sessions.shown) or replies.hash(name)
