-- needs: runtime/base, state/workers, runtime/replies
-- Incarnations in the form for Python, in the order of registration.

local worker_list = {}

-- Return all packed: id, info, when renewed, left, short, idle, how many leases it has, and how many runs of which
-- lanes it executes (lanes and counts in turn).
function worker_list.all()
  local found = {}
  for i, worker in ipairs(workers.all()) do
    found[i] = {
      worker.id, call('HGET', PREFIX .. 'worker_infos', worker.id), worker.renewed_at, worker.left, worker.short,
      call('HEXISTS', PREFIX .. 'resting', worker.id) == 1, call('SCARD', PREFIX .. 'leases:' .. worker.id),
      call('HGETALL', PREFIX .. 'busy:' .. worker.id),
    }
  end
  return pack(found)
end

-- Return when any worker last renewed, and until when no lapse counts; packed.
function worker_list.heartbeat()
  return call('HGET', PREFIX .. 'heartbeat', 'all') or pack({0, 0})
end
