-- needs: runtime/base, runtime/cached_hash, state/runs, state/lanes, rules/queue/circuits, rules/queue/shelves
-- needs: state/workers, state/due_jobs
-- Wake-ups: which idle workers to wake when something may have become startable. A woken worker is not idle any more,
-- so no worker is woken twice for one thing. A wake-up is a message on channel `wake:<incarnation>`; a message on
-- channel `said` means that events were written.
--
-- Hash `resting`: idle incarnation -> {order of registration, the next due time that it knows or false, room}. Room is
-- that of its next step if a submission may make this step ahead (fast/claim_ahead.lua), else false.

local wakeups = {}
local messages = {}  -- by incarnation: the wake-up, empty unless it brings a reply
local cache = cached_hash.at('resting')

base.at_begin(function()
  messages = {}
end)

-- Race: a server that has lost its last moment (a power cut, a fail-over) may have a worker as idle that has made a
-- step since. It must not make another step in that worker's place: the worker would never see that the server has lost
-- one. So a server makes steps ahead only for workers whose last step it has made itself. The library's own memory
-- keeps that, which a restart or a fail-over empties: by worker, the number of that step.
local last_calls, last_call_count = {}, 0
local MOST_LAST_CALLS = 10000  -- before all are dropped: such workers are woken and make their steps themselves

local function note_last_call(worker)
  if last_call_count >= MOST_LAST_CALLS then
    last_calls, last_call_count = {}, 0
  end
  local key = PREFIX .. worker.id
  last_call_count = last_call_count + (last_calls[key] and 0 or 1)
  last_calls[key] = worker.call
end

-- Send a wake-up to a worker, idle or not; `message` is a reply for it, or empty.
function wakeups.send(id, message)
  messages[id] = message
end

-- Note that a worker is idle, or not any more; `next_due` is the next due time that it knows, or false; `room` is given
-- if a submission may make its next step ahead.
function wakeups.set_idle(worker, is_idle, next_due, room)
  cache:read_all()
  cache:put(worker.id, is_idle and {worker.order, next_due or false, room or false})
  if room then
    note_last_call(worker)
  end
end

local function wake(id)
  cache:put(id, false)
  messages[id] = ''
end

-- Return when the next future run is due, the next question expires, or the next circuit may be probed.
function wakeups.next_due()
  local soonest = shelves.next_due()
  for lane in pairs(base.set('broken_lanes')) do
    for key in pairs(shelves.gated('broken', lane)) do
      local till = circuits.get(key)[2]
      if till and till ~= FOREVER and NOW < till and (not soonest or till < soonest) then
        soonest = till
      end
    end
  end
  return soonest
end

local function may_take(id, book)
  return not book.worker_limit or workers.spare(id, book.name, book.worker_limit) > 0
end

-- Return, by lane, how many runs of the ready order may start, and the tasks of runs that were set aside and may start.
local function startable(books)
  local left, aside = {}, {}
  local paused = base.set('paused_tasks')
  for _, name in ipairs(base.sorted_keys(books)) do
    local book = books[name]
    local room = lanes.room(book)
    if room > 0 then
      local ready = lanes.ready(book)
      if ready > 0 then
        left[#left + 1] = {book, min(ready, room)}
      end
      local tasks = {}
      for task in pairs(shelves.gated('aside', name)) do
        tasks[task] = not paused[task] or nil
      end
      for key in pairs(shelves.gated('broken', name)) do
        local task = circuits.task_of(key)
        if circuits.lets_start(key) and not paused[task] then
          tasks[task] = true
        end
      end
      if next(tasks) ~= nil then
        aside[#aside + 1] = {book, tasks}
      end
    end
  end
  return left, aside
end

local function takes_some(id, left)
  for _, entry in ipairs(left) do
    if entry[2] > 0 and may_take(id, entry[1]) then
      entry[2] = entry[2] - 1
      return true
    end
  end
  return false
end

local function takes_aside(id, aside)
  if #aside == 0 then
    return false
  end
  local known = workers.tasks(id)
  for _, entry in ipairs(aside) do
    for task in pairs(entry[2]) do
      if known[task] and may_take(id, entry[1]) then
        return true
      end
    end
  end
  return false
end

-- Return the idle workers, {id, order, next_due, room}: first those whose step may be made ahead, because they execute
-- nothing; then in the order of registration.
local function idle_workers()
  local found = {}
  for id, entry in pairs(cache:all()) do
    found[#found + 1] = {id, entry[1], entry[2], entry[3]}
  end
  if #found > 1 then
    table.sort(found, function(one, other)
      if not one[4] ~= not other[4] then
        return one[4] and true or false
      end
      return one[2] < other[2]
    end)
  end
  return found
end

-- Return whether a step may be made ahead for this worker: this server has made its last one, it has renewed in time,
-- and its process listens.
local function is_there(id)
  local worker = workers.alive(id)
  if not worker or last_calls[PREFIX .. id] ~= worker.call or math.abs(NOW - worker.renewed_at) > worker.lease then
    return false
  end
  local listening = redis.pcall('PUBSUB', 'NUMSUB', PREFIX .. 'wake:' .. id)  -- the user may lack the right to ask
  return not listening.err and listening[2] > 0
end

-- Return the idle worker whose step is to be made ahead (only if `claims_ahead`), after waking as many others as can
-- start something; also whether any of these will look for what is due.
local function wake_for_work(idle, claims_ahead)
  local books = lanes.working()
  for _, kind in ipairs({'aside_lanes', 'broken_lanes'}) do
    for name in pairs(base.set(kind)) do
      books[name] = lanes.get(name)
    end
  end
  local left, aside = startable(books)
  local chosen, is_any_woken = nil, false
  for _, worker in ipairs((left[1] or aside[1]) and idle or {}) do
    if takes_some(worker[1], left) or takes_aside(worker[1], aside) then
      if claims_ahead and worker[4] and not chosen and is_there(worker[1]) then
        chosen = worker
      elseif not (chosen and worker[4]) then
        wake(worker[1])
      end
      is_any_woken = true
    end
  end
  return chosen, is_any_woken
end

-- Invariant: if any worker is idle, at least one idle or just-woken worker knows the next due time.
local function wake_for_due(idle)
  local soonest = wakeups.next_due()
  local is_known = not soonest
  for _, worker in ipairs(idle) do
    is_known = is_known or (worker[3] and worker[3] <= soonest)
  end
  if not is_known then
    wake(idle[1][1])
  end
end

-- Wake as many idle workers as can start something, and one if none of them knows the next due time. All workers are
-- woken for a job that is due sooner than before: any of them may be gone by then. The last thing that a script does
-- before it flushes.
--
-- With `claims_ahead`, the first worker whose step may be made ahead is not woken: its id and room are returned. The
-- other such workers stay idle, because that step will wake them for the runs that it leaves.
function wakeups.wake(claims_ahead)
  if due_jobs.is_sooner() then
    for _, worker in ipairs(workers.all()) do
      messages[worker.id] = ''
    end
  end
  local idle = idle_workers()
  if #idle == 0 then
    return nil
  end
  local chosen, is_any_woken = wake_for_work(idle, claims_ahead)
  if not is_any_woken then
    wake_for_due(idle)
  end
  return chosen and chosen[1], chosen and chosen[4]
end

-- Wake workers, and claim ahead for an idle one: the last thing that a submission does. It flushes what was accepted
-- first and then calls `written`: a failure behind that concerns the step only.
function wakeups.wake_or_claim_ahead(written)
  local idle, room = wakeups.wake(wakeups.claim_ahead ~= nil)
  if idle then
    base.flush()
    written()
    base.begin_again()
    wakeups.claim_ahead(idle, room)
  end
  base.flush()
end

base.at_end(function()
  for id, message in pairs(messages) do
    call('PUBLISH', PREFIX .. 'wake:' .. id, message)
  end
  if base.wrote_events then
    call('PUBLISH', PREFIX .. 'said', '')
  end
end)
