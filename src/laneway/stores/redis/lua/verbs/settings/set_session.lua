-- needs: rules/settings
-- Set the given values of a session's rule: {name, rule, throttled}.

base.allow_full()
local args = unpacked(ARGV[2])
settings.set_session(args[1], args[2], args[3])
return settings.done()
