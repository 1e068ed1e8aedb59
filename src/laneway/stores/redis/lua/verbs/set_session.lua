-- needs: rules/ruling
-- Set what is given of a session's rule: {name, rule, throttled}.

base.allow_full()
local args = unpacked(ARGV[2])
ruling.set_session(args[1], args[2], args[3])
return ruling.done()
