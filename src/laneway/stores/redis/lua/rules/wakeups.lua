-- needs: runtime/base, runtime/cached_hash, state/runs, state/lanes, rules/queue/circuits, rules/queue/shelves
-- needs: state/workers, rules/jobs/after
-- Wake-ups: whom to wake when something may have become startable. Who is chosen rests no more, so nobody is woken
-- twice for one thing. A wake-up is a message on channel `wake:<incarnation>`; `said` tells watchers that events were
-- written.
--
-- Hash `resting`: the incarnations that rest -> {order of registering, the next due time that it knows of or false, its
-- room if it has lent its next step, else false}.

local wakeups = {}
local woken = {}  -- by incarnation, what it is told
local kept_resting = cached_hash.at('resting')

base.at_begin(function()
  woken = {}
end)

-- Race: a server that has lost its last moment (a power cut, a fail-over) may believe that a worker rests which has gone
-- on, and must not do a step that it made otherwise: then it would hear nothing of the loss. So a server lends only what
-- was lent to itself. Its process alone keeps this, as long as it has the library: by worker, the call that lent the next.
local heard_lending, lenders = {}, 0
local MOST_LENDERS = 10000  -- before all are forgotten: who is, is woken and asks

local function hear_lending(worker)
  if lenders >= MOST_LENDERS then
    heard_lending, lenders = {}, 0
  end
  local key = PREFIX .. worker.id
  lenders = lenders + (heard_lending[key] and 0 or 1)
  heard_lending[key] = worker.call
end

-- Wake a worker, whether it rests or not: something is requested of what it executes.
function wakeups.nudge(id)
  woken[id] = ''
end

-- Wake a worker with the answer to the step that it has lent.
function wakeups.tell(id, answer)
  woken[id] = answer
end

-- Let a worker rest, or not any more; `told` is the next due time that it knows of, or false. `room` is that of its next
-- step if it has lent that.
function wakeups.rest(worker, rests, told, room)
  kept_resting:read_all()
  kept_resting:put(worker.id, rests and {worker.order, told or false, room or false})
  if room then
    hear_lending(worker)
  end
end

local function wake(id)
  kept_resting:put(id, false)
  woken[id] = ''
end

-- Return when the next future run is due, a question is answered too late, or a circuit is tried again.
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

-- Return, by lane, how many runs of the ready order may be started, and the tasks of which runs may be that were set
-- aside.
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

-- Return the workers that rest, {id, order, told, room}: first those that have lent their next step, because they execute
-- nothing, and in the order of registering.
local function resting()
  local found = {}
  for id, rest in pairs(kept_resting:all()) do
    found[#found + 1] = {id, rest[1], rest[2], rest[3]}
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

-- Tell whether a worker that has lent its next step is seen to live: it has renewed in time, and its process listens.
local function is_there(id)
  local worker = workers.alive(id)
  if not worker or heard_lending[PREFIX .. id] ~= worker.call or math.abs(NOW - worker.renewed_at) > worker.lease then
    return false
  end
  local heard = redis.pcall('PUBSUB', 'NUMSUB', PREFIX .. 'wake:' .. id)  -- which the user may be forbidden
  return not heard.err and heard[2] > 0
end

-- Wake as many as can start something, and one if nobody knows the next due time. A job that is due sooner than they
-- know concerns all: any of them may be gone by then. The last thing that a script does before it flushes.
--
-- If the script `lends`, the first that has lent its next step and is there is not woken but returned, with its room. The
-- others that have lent theirs rest on: that step will wake them for what it leaves.
function wakeups.wake(lends)
  if job_after.is_sooner() then
    for _, worker in ipairs(workers.all()) do
      woken[worker.id] = ''
    end
  end
  local idle, lender = resting(), nil
  if #idle > 0 then
    local books = lanes.working()
    for _, kind in ipairs({'aside_lanes', 'broken_lanes'}) do
      for name in pairs(base.set(kind)) do
        books[name] = lanes.get(name)
      end
    end
    local left, aside = startable(books)
    local somebody_asks = false
    for _, worker in ipairs((left[1] or aside[1]) and idle or {}) do
      if takes_some(worker[1], left) or takes_aside(worker[1], aside) then
        if lends and worker[4] and not lender and is_there(worker[1]) then
          lender = worker
        elseif not (lender and worker[4]) then
          wake(worker[1])
        end
        somebody_asks = true
      end
    end
    -- Invariant: while anybody rests, somebody who rests, or was woken and will ask, knows the next due time.
    local soonest = not somebody_asks and wakeups.next_due()
    local is_known = not soonest
    for _, worker in ipairs(idle) do
      is_known = is_known or (worker[3] and worker[3] <= soonest)
    end
    if not is_known then
      wake(idle[1][1])
    end
  end
  return lender and lender[1], lender and lender[4]
end

-- Wake as `wake` does, and claim ahead for one that is idle; the last thing that a submission does. It writes what it has
-- accepted first, and then calls `written`: what fails behind that is the step alone.
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
  for id, answer in pairs(woken) do
    call('PUBLISH', PREFIX .. 'wake:' .. id, answer)
  end
  if base.said then
    call('PUBLISH', PREFIX .. 'said', '')
  end
end)
