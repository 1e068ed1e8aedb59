-- needs: runtime/base, runtime/cached_hash, state/runs
-- Incarnations, the leases that each holds, and whether it is alive; see core/records/liveness.py.
--
-- Hash `workers`: incarnation -> its packed state; beside it, as given when it registered: hashes `worker_infos` (JSON)
-- and `worker_tasks` (a packed list of names). Set `leases:<incarnation>`: the numbers of the runs whose leases it
-- holds; hash `busy:<incarnation>`: lane -> how many of these it executes, which are all but the lapsed ones. Set
-- `asked:<incarnation>`: numbers of runs that it executes and for which a request is open. Hash `heartbeat`: when any
-- worker last renewed, and until when no lapse counts.
--
-- "Field" is a run's number as text.

local workers = {}

local cache = cached_hash.at('workers', nil, function(worker)
  return {
    worker.order, worker.lease, worker.renewed_at, worker.left, worker.short, worker.call, worker.reply,
    worker.made_ahead,
  }
end, function(packed, id)
  return {
    id = id, order = packed[1], lease = packed[2], renewed_at = packed[3], left = packed[4], short = packed[5],
    call = packed[6],  -- its newest
    reply = packed[7],  -- to that, packed
    made_ahead = packed[8] or false,  -- a submission made that call ahead, after one that had brought nothing
  }
end)

function workers.find(id)
  return cache:find(id)
end

-- Return the worker of that id if it may act, else nil.
function workers.alive(id)
  local worker = cache:find(id)
  return worker and not worker.left and worker or nil
end

-- Return all workers in the order of registration.
function workers.all()
  local found = {}
  for _, worker in pairs(cache:all()) do
    found[#found + 1] = worker
  end
  table.sort(found, function(one, other) return one.order < other.order end)
  return found
end

-- Return the tasks that a worker knows; a table of trues.
function workers.tasks(id)
  local tasks = {}
  for _, task in ipairs(unpacked(call('HGET', PREFIX .. 'worker_tasks', id) or pack({}))) do
    tasks[task] = true
  end
  return tasks
end

-- Liveness --------------------------------------------------------------------------------------------------------

local function heartbeat()
  return cached_hash.at('heartbeat', function() return {0, 0} end):get('all')
end

-- Note that a worker with this lease length has renewed.
local function note_renewal(lease)
  local beat = heartbeat()
  local silence = beat[1] > 0 and NOW - beat[1] or 0
  if math.abs(silence) <= math.floor(lease / 2) then
    beat[1] = max(NOW, beat[1])
  else
    -- When the clock was set back, the old end of a grace may be years ahead, so it must not be kept.
    beat[1], beat[2] = NOW, silence < 0 and NOW + lease or max(NOW + lease, beat[2])
  end
end

function workers.register(id, lease, info, tasks)
  if cache:find(id) then
    return
  end
  local order = tonumber(call('HGET', PREFIX .. 'counters', 'workers') or 0) + 1
  base.count('counters', 'workers', 1)
  cache:put(id, {
    id = id, order = order, lease = lease, renewed_at = NOW, left = false, short = false, call = 0, reply = false,
    made_ahead = false,
  })
  base.set_text('worker_infos', id, info)
  base.set_text('worker_tasks', id, pack(tasks))
  note_renewal(lease)
end

function workers.renew(worker)
  worker.renewed_at = NOW
  note_renewal(worker.lease)
end

-- Return whether the worker has left or lapsed.
function workers.is_dead(worker)
  local beat = heartbeat()
  return worker.left or (NOW >= beat[2] and math.abs(NOW - worker.renewed_at) > worker.lease)
end

-- Return whether the holder of the run's lease is dead.
function workers.has_lapsed(run)
  local holder = run.holder and cache:find(run.holder)
  return run.lapsed or (holder and workers.is_dead(holder)) or false
end

-- Leases ----------------------------------------------------------------------------------------------------------

local moved = {}  -- by incarnation, then field: true for a lease that it got, false for one that it lost
local got, lost = {}, {}  -- the same for many leases: {key, fields}
local busy = {}  -- by incarnation: increments of its counts

base.at_begin(function()
  moved, busy, got, lost = {}, {}, {}, {}
end)

-- Return the fields of the runs whose leases a worker holds; a table of trues.
function workers.leases(id)
  local found = {}
  for _, field in ipairs(call('SMEMBERS', PREFIX .. 'leases:' .. id)) do
    found[field] = true
  end
  for field, there in pairs(moved[id] or {}) do
    found[field] = there or nil
  end
  return found
end

-- Return the same as a sorted list of numbers.
function workers.sorted_leases(id)
  local numbers = {}
  for field in pairs(workers.leases(id)) do
    numbers[#numbers + 1] = tonumber(field)
  end
  table.sort(numbers)
  return numbers
end

local function moved_of(id)
  local of = moved[id]
  if not of then
    of = {}
    moved[id] = of
  end
  return of
end

-- Give a worker the leases of these runs, or take them away.
function workers.move(id, fields, there)
  local of = moved_of(id)
  for i = 1, #fields do
    of[fields[i]] = there
  end
end

-- Do the same in a batch: `workers.leases` of this call does not show it.
function workers.move_all(id, fields, there)
  local lists = there and got or lost
  if #fields > 0 then
    lists[#lists + 1] = {PREFIX .. 'leases:' .. id, fields}
  end
end

-- Count so many more runs of a lane as executed by a worker.
function workers.count(id, lane, more)
  local of = busy[id]
  if not of then
    of = base.increments('busy:' .. id)
    busy[id] = of
  end
  of[lane] = (of[lane] or 0) + more
end

-- Give a worker the leases of runs of a lane whose records were rewritten as started.
function workers.give_started(worker, lane, fields)
  runs.count_started(#fields)
  workers.move_all(worker.id, fields, true)
  workers.count(worker.id, lane, #fields)
end

-- Give the run's lease to a worker, or to none; `lapsed` if it is from now on the lease of a dead worker.
function workers.hand(run, id, lapsed)
  local field = base.digits(run.number)
  if run.holder then
    moved_of(run.holder)[field] = false
    workers.count(run.holder, run.lane, run.lapsed and 0 or -1)
    if base.set('asked:' .. run.holder)[field] then
      base.put_in('asked:' .. run.holder, field, false)
    end
  end
  run.holder = id or false
  if lapsed then
    run.lapsed = true
  end
  if id then
    moved_of(id)[field] = true
    workers.count(id, run.lane, run.lapsed and 0 or 1)
  end
end

base.at_end(function()
  for i = 1, #lost do
    base.send('SREM', lost[i][1], lost[i][2])
  end
  for i = 1, #got do
    base.send('SADD', got[i][1], got[i][2])
  end
  for id, fields in pairs(moved) do
    local here, gone = {}, {}
    for field, there in pairs(fields) do
      local list = there and here or gone
      list[#list + 1] = field
    end
    local key = PREFIX .. 'leases:' .. id
    base.send('SREM', key, gone)
    base.send('SADD', key, here)
  end
end)

-- Note whether a request is open for a run that is executed.
function workers.note_request(run)
  if run.holder then
    local is_open = run.state == 'running' and (run.request ~= nil or (run.steered or 0) > 0)
    base.put_in('asked:' .. run.holder, base.digits(run.number), is_open)
  end
end

-- Return how many more runs of a lane with this limit per worker the worker may take.
function workers.spare(id, lane, limit)
  local before = tonumber(call('HGET', PREFIX .. 'busy:' .. id, lane) or 0)
  return limit - before - (base.increments('busy:' .. id)[lane] or 0)
end

-- Delete a worker that has left and holds no leases.
function workers.delete_if_done(worker)
  if worker.left and next(workers.leases(worker.id)) == nil then
    cache:drop(worker.id)
    base.set_text('worker_infos', worker.id, false)
    base.set_text('worker_tasks', worker.id, false)
    base.at_this_end(function()
      call('DEL', PREFIX .. 'asked:' .. worker.id, PREFIX .. 'busy:' .. worker.id)
    end)
  end
end
