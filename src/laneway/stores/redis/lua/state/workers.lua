-- needs: runtime/base, runtime/cached_hash, state/runs
-- Incarnations: who is alive, judged by renewal; see core/records/liveness.py.
--
-- Hash `workers`: incarnation -> its packed state; beside it, as given at registering: hashes `worker_infos` (JSON) and
-- `worker_tasks` (a packed list of names). Set `leases:<incarnation>`: the numbers of the runs whose leases it has; hash
-- `busy:<incarnation>`: lane -> how many of these it executes, which are all but those of the dead.
-- Set `asked:<incarnation>`: numbers of runs it executes of which something stands requested.
-- Hash `heartbeat`: when anybody last renewed, and until when no lapse is acted on.

local workers = {}

local kept_workers = cached_hash.at('workers', nil, function(worker)
  return {
    worker.order, worker.lease, worker.renewed_at, worker.left, worker.short, worker.call, worker.reply,
    worker.lent,
  }
end, function(packed, id)
  return {
    id = id, order = packed[1], lease = packed[2], renewed_at = packed[3], left = packed[4], short = packed[5],
    call = packed[6],  -- its newest
    reply = packed[7],  -- to that, packed
    lent = packed[8] or false,  -- that call was done for it, and the one before had brought nothing
  }
end)

function workers.find(id)
  return kept_workers:find(id)
end

-- Return the worker of that name if it may act, else nil.
function workers.alive(id)
  local worker = kept_workers:find(id)
  return worker and not worker.left and worker or nil
end

-- Return all, in the order of registering.
function workers.all()
  local found = {}
  for _, worker in pairs(kept_workers:all()) do
    found[#found + 1] = worker
  end
  table.sort(found, function(one, other) return one.order < other.order end)
  return found
end

function workers.tasks(id)
  local tasks = {}
  for _, task in ipairs(unpacked(call('HGET', PREFIX .. 'worker_tasks', id) or pack({}))) do
    tasks[task] = true
  end
  return tasks
end

local function heartbeat()
  return cached_hash.at('heartbeat', function() return {0, 0} end):get('all')
end

-- Somebody with this lease length has renewed.
local function renewed(lease)
  local beat = heartbeat()
  local silence = beat[1] > 0 and NOW - beat[1] or 0
  if math.abs(silence) <= math.floor(lease / 2) then
    beat[1] = max(NOW, beat[1])
  else
    -- After a step back the old end of a grace may be years ahead, so it must not be kept.
    beat[1], beat[2] = NOW, silence < 0 and NOW + lease or max(NOW + lease, beat[2])
  end
end

function workers.register(id, lease, info, tasks)
  if kept_workers:find(id) then
    return
  end
  local order = tonumber(call('HGET', PREFIX .. 'counters', 'workers') or 0) + 1
  base.count('counters', 'workers', 1)
  kept_workers:put(id, {
    id = id, order = order, lease = lease, renewed_at = NOW, left = false, short = false, call = 0, reply = false,
    lent = false,
  })
  base.set_text('worker_infos', id, info)
  base.set_text('worker_tasks', id, pack(tasks))
  renewed(lease)
end

function workers.renew(worker)
  worker.renewed_at = NOW
  renewed(worker.lease)
end

-- Tell whether the worker has left or lapsed.
function workers.is_dead(worker)
  local beat = heartbeat()
  return worker.left or (NOW >= beat[2] and math.abs(NOW - worker.renewed_at) > worker.lease)
end

-- Tell whether whoever holds the run's lease is dead.
function workers.has_lapsed(run)
  local holder = run.holder and kept_workers:find(run.holder)
  return run.lapsed or (holder and workers.is_dead(holder)) or false
end

local moved = {}  -- by incarnation, then number as text: true if it got that lease, false if it has it no more
local busy = {}  -- by incarnation: by how much its counts grow

local got, lost = {}, {}  -- the same of many: {key, numbers as texts}

base.at_begin(function()
  moved, busy, got, lost = {}, {}, {}, {}
end)

-- Return the numbers, as texts, of the runs whose leases a worker has; a table of trues.
function workers.leases(id)
  local found = {}
  for _, number in ipairs(call('SMEMBERS', PREFIX .. 'leases:' .. id)) do
    found[number] = true
  end
  for number, there in pairs(moved[id] or {}) do
    found[number] = there or nil
  end
  return found
end

local function moved_of(id)
  local of = moved[id]
  if not of then
    of = {}
    moved[id] = of
  end
  return of
end

-- Note that a worker has the leases of these runs, their numbers given as texts, or has them no more.
function workers.move(id, numbers, there)
  local of = moved_of(id)
  for i = 1, #numbers do
    of[numbers[i]] = there
  end
end

-- Do the same for many, that nobody asks about or hands on before this call ends.
function workers.move_all(id, numbers, there)
  local lists = there and got or lost
  if #numbers > 0 then
    lists[#lists + 1] = {PREFIX .. 'leases:' .. id, numbers}
  end
end

-- Count so many more runs of a lane as executed by a worker.
function workers.count(id, lane, more)
  local of = busy[id]
  if not of then
    of = base.growth('busy:' .. id)
    busy[id] = of
  end
  of[lane] = (of[lane] or 0) + more
end

-- Note that a worker has the leases of these runs of a lane, which are started: their numbers as texts.
function workers.lend(worker, lane, fields)
  runs.count_started(#fields)
  workers.move_all(worker.id, fields, true)
  workers.count(worker.id, lane, #fields)
end

-- Give the run's lease to a worker, or to nobody; `lapsed` if it is one of the dead from now on.
function workers.hand(run, id, lapsed)
  local number = base.digits(run.number)
  if run.holder then
    moved_of(run.holder)[number] = false
    workers.count(run.holder, run.lane, run.lapsed and 0 or -1)
    if base.set('asked:' .. run.holder)[number] then
      base.put_in('asked:' .. run.holder, number, false)
    end
  end
  run.holder = id or false
  if lapsed then
    run.lapsed = true
  end
  if id then
    moved_of(id)[number] = true
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
  for id, numbers in pairs(moved) do
    local here, gone, more, less = {}, {}, 0, 0
    for number, there in pairs(numbers) do
      if there then
        more = more + 1
        here[more] = number
      else
        less = less + 1
        gone[less] = number
      end
    end
    local key = PREFIX .. 'leases:' .. id
    base.send('SREM', key, gone)
    base.send('SADD', key, here)
  end
end)

-- Note whether something stands requested of a run that is executed.
function workers.ask(run)
  if run.holder then
    local asked = run.state == 'running' and (run.request ~= nil or (run.steered or 0) > 0)
    base.put_in('asked:' .. run.holder, base.digits(run.number), asked)
  end
end

-- Return how many more runs of the lane the worker may take, if it may have so many.
function workers.spare(id, lane, limit)
  local before = tonumber(call('HGET', PREFIX .. 'busy:' .. id, lane) or 0)
  return limit - before - (base.growth('busy:' .. id)[lane] or 0)
end

-- Forget a worker that has left, once it holds nothing.
function workers.forget_if_done(worker)
  if worker.left and next(workers.leases(worker.id)) == nil then
    kept_workers:drop(worker.id)
    base.set_text('worker_infos', worker.id, false)
    base.set_text('worker_tasks', worker.id, false)
    base.at_this_end(function()
      call('DEL', PREFIX .. 'asked:' .. worker.id, PREFIX .. 'busy:' .. worker.id)
    end)
  end
end
