-- needs: runtime/base, state/workers, runtime/replies
-- Incarnations as others see them, in the order of registering.

local worker_list = {}

-- Return them packed: id, info, when renewed, left, short, resting, how many leases it has, and how many runs of which
-- lanes it executes: lane, count, the next lane.
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

-- Return when anybody last renewed, and until when no lapse is acted on; packed.
function worker_list.heartbeat()
  return call('HGET', PREFIX .. 'heartbeat', 'all') or pack({0, 0})
end
