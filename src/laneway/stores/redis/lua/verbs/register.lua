-- needs: workers
-- Make an incarnation known: {id, lease, info, tasks}.

base.allow_full()
workers.register(unpack(unpacked(ARGV[2]), 1, 4))
base.flush()
return pack(true)
