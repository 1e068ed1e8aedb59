-- needs: state/workers
-- Register an incarnation: {id, lease, info, tasks}.

base.allow_full()
local args = unpacked(ARGV[2])
-- One without tasks claims nothing: it may take over leases in a store that is shut.
local refused = gate(#args[4] > 0)
if refused then
  return refused
end
workers.register(unpack(args, 1, 4))
base.flush()
return pack(true)
