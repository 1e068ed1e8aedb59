-- needs: base, ledgers, runs, lanes, circuits, shelves, workers, jobs
-- Wake-ups: whom to wake when something may have become startable. Who is chosen rests no more, so nobody is woken
-- twice for one thing. A wake-up is a message on channel `wake:<incarnation>`; `said` tells watchers that events were
-- written.
--
-- Hash `resting`: the incarnations that rest -> {order of registering, the next due time that it knows of or false}.

local waking = {}
local woken = {}  -- a table of trues
local kept_resting = ledgers.at('resting')

base.at_begin(function()
  woken = {}
end)

-- Wake a worker, whether it rests or not: something is requested of what it executes.
function waking.nudge(id)
  woken[id] = true
end

-- Let a worker rest, or not any more; `told` is the next due time that it knows of, or false.
function waking.rest(worker, rests, told)
  kept_resting:read_all()
  kept_resting:put(worker.id, rests and {worker.order, told or false})
end

local function wake(id)
  kept_resting:put(id, false)
  woken[id] = true
end

-- Return when the next future run is due, a question is answered too late, or a circuit is tried again.
function waking.next_due()
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
        left[#left + 1] = {book, math.min(ready, room)}
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

-- Return the workers that rest, {id, order, told}, in the order of registering.
local function resting()
  local found = {}
  for id, rest in pairs(kept_resting:all()) do
    found[#found + 1] = {id, rest[1], rest[2]}
  end
  if #found > 1 then
    table.sort(found, function(one, other) return one[2] < other[2] end)
  end
  return found
end

-- Wake as many as can start something, and one if nobody knows the next due time. A job that is due sooner than they
-- know concerns all: any of them may be gone by then. The last thing that a script does before it flushes.
function waking.wake()
  if jobs.is_sooner() then
    for _, worker in ipairs(workers.all()) do
      woken[worker.id] = true
    end
  end
  local idle = resting()
  if #idle > 0 then
    local books = lanes.working()
    for _, kind in ipairs({'aside_lanes', 'broken_lanes'}) do
      for name in pairs(base.set(kind)) do
        books[name] = lanes.get(name)
      end
    end
    local left, aside = startable(books)
    local somebody_asks = false
    for _, worker in ipairs(idle) do
      if takes_some(worker[1], left) or takes_aside(worker[1], aside) then
        wake(worker[1])
        somebody_asks = true
      end
    end
    -- Invariant: while anybody rests, somebody who rests, or was woken and will ask, knows the next due time.
    local soonest = not somebody_asks and waking.next_due()
    local is_known = not soonest
    for _, worker in ipairs(idle) do
      is_known = is_known or (worker[3] and worker[3] <= soonest)
    end
    if not is_known then
      wake(idle[1][1])
    end
  end
end

base.at_end(function()
  for id in pairs(woken) do
    call('PUBLISH', PREFIX .. 'wake:' .. id, '')
  end
  if base.said then
    call('PUBLISH', PREFIX .. 'said', '')
  end
end)
