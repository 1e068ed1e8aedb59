-- needs: state/workers
-- Make an incarnation known: {id, lease, info, tasks}.

base.allow_full()
local args = unpacked(ARGV[2])
-- One that knows no tasks can claim nothing: it may take over from the dead of a store that is shut.
local refused = gate(#args[4] > 0)
if refused then
  return refused
end
workers.register(unpack(args, 1, 4))
base.flush()
return pack(true)
