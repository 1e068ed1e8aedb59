-- needs: base, records, runs, logs, lanes, shelves, workers
-- Runs that are started, and that succeed, alike: what becomes of one is known from its state and whose it is, which it
-- shares with others of a batch. So its record is not read, but gets other bytes in front of what is its own.
--
-- Only runs of which nobody else hears: in no session, with nothing requested, no messages, ties or waits (all of which
-- are `rare`), of no user who has parked runs, and while no breaker is open. All others go the long way (leases.lua,
-- claiming.lua), which would do the same to these.

local alike = {}
local TRIES = 4  -- runs that are looked at before none is taken to be alike

local starts, successes = {}, {}  -- by the first two parts of a record: what they become; false if that is not known
local changes = {}  -- of states, whosever they are
local hushed  -- no breaker is open

base.at_begin(function()
  starts, successes, changes, hushed = {}, {}, {}, nil
end)

local function is_hushed()
  if hushed == nil then
    hushed = next(base.set('open')) == nil
  end
  return hushed
end

-- Return what a state becomes by a start; false if the run has to be looked at.
local function started(is, worker)
  local told = logs.started(worker.id)
  if is.state ~= 'pending' or is.rare or (is.kind ~= FRESH and is.kind ~= AGAIN) or not logs.fit(is, told) then
    return false
  end
  local run = records.alone(is)
  run.state, run.kind, run.shelf, run.worker, run.holder = 'running', AGAIN, false, worker.id, worker.id
  run.started_at, run.fence = NOW, run.fence + 1
  logs.say(run, told)
  return {
    text = records.state_text(run), kind = is.kind, fence = run.fence,
    behind = pack(run.fence, run.attempt, run.crashes, worker.id),
  }
end

-- Return what a state becomes by a success under this worker's lease.
local function succeeded(is, worker, told)
  if is.state ~= 'running' or is.rare or is.holder ~= worker.id or not logs.fit(is, told) then
    return false
  end
  local run = records.alone(is)
  run.state, run.ended_at, run.worker, run.holder, run.crashes = 'succeeded', NOW, false, false, 0
  logs.say(run, told)
  return {text = records.state_text(run), fence = run.fence}
end

-- Return what the first two parts of a record become, as `change` has it of the state: `front` is what stands there
-- then; `handed` and `behind` what stands around its own as the worker gets it (runs.handed).
local function form_of(parts, change, worker, told)
  local is, of, whose = records.parts_of(parts)
  local after = changes[is]
  if after == nil then
    after = change(is, worker, told)
    changes[is] = after
  end
  return after and not of.session and {
    of = of, kind = after.kind, fence = after.fence, front = records.front(after.text, whose), handed = HANDED .. whose,
    behind = after.behind, count = 0,
  }
end

-- Count the runs as ended that became so. Its user has nothing parked, so nothing follows from it.
local function count_successes(worker, fields)
  runs.count_ended('succeeded', fields)
  workers.move(worker.id, fields, false)
  for _, form in pairs(successes) do
    if form and form.count > 0 then
      local of, count = form.of, form.count
      lanes.stop(lanes.get(of.lane), of, count)
      workers.count(worker.id, of.lane, -count)
      form.count = 0
    end
  end
end

local function has_parked(of)
  return of.user and lanes.seat(lanes.get(of.lane), of.user).parked > 0
end

-- Let those of these runs succeed that can do so alike: lists of their numbers as texts, fences and results (false:
-- none). `more` tells by place what else is to be written, `told` the events. Return the places of those that are left.
function alike.succeed(worker, fields, fences, values, more, told)
  local left, ended = {}, {}
  local texts, rewritten, offered = runs.texts(fields)
  local own_at, heads = records.own_at, records.heads
  for i = 1, #fields do
    local field, text, value, form = fields[i], texts[i], values[i], false
    if text and not more[i] and not rewritten[field] and is_hushed() and (#ended > 0 or i <= TRIES) then
      local parts, at = own_at(text)
      form = successes[parts]
      if form == nil then
        form = form_of(parts, succeeded, worker, told)
        successes[parts] = form
      end
      if form and (form.fence ~= fences[i] or has_parked(form.of) or (value and records.is_long(value))) then
        form = false
      end
      if form then
        rewritten[field] = value and form.front .. string.sub(text, at, -2) .. heads[#value] .. value
          or form.front .. string.sub(text, at)
        form.count = form.count + 1
        ended[#ended + 1] = field
      end
    end
    if not form then
      left[#left + 1], offered[field] = i, text or nil
    end
  end
  count_successes(worker, ended)
  return left
end

local function start_all(book, form, count, rank)
  if form and count > 0 then
    lanes.start(book, form.of, form.kind, tonumber(rank), count)
  end
end

-- Start runs from the front of a lane's ready order as long as they can be started alike: up to `count`, of these
-- `tasks`. Adds them to what was `found` (claiming.lua).
function alike.start(worker, book, count, tasks, found)
  local order = shelves.ready(book.name)
  local page, at = order:front_page(count)
  if not page or not is_hushed() then
    return
  end
  local fields = {}
  for i = 1, count do
    local member = page[at + 2 * i - 2]
    if not member then
      break
    end
    fields[i] = string.match(member, '[1-9]%d*')
  end
  local texts, rewritten, offered = runs.texts(fields)
  local taken, lent, own_at = 0, {}, records.own_at
  local group, alike_ones, rank  -- the form that the newest ones have, how many they are, and the last one's rank
  for i = 1, #fields do
    local field, text = fields[i], texts[i]
    if not text or rewritten[field] or records.has_no_args(text) then
      break
    end
    local parts, own = own_at(text)
    local form = starts[parts]
    if form == nil then
      form = form_of(parts, started, worker)
      starts[parts] = form
    end
    if form ~= group or form and form.of.user then  -- what its user may have must be known before it is looked at
      start_all(book, group, alike_ones, rank)
      group, alike_ones = form, 0
    end
    if not form or not tasks[form.of.task] or lanes.must_park(book, form.of, form.kind) then
      break
    end
    alike_ones, rank = alike_ones + 1, page[at + 2 * i - 1]
    local rest, place = string.sub(text, own), #found.numbers + 1
    rewritten[field] = form.front .. rest
    taken, lent[i] = i, field
    found.numbers[place], found.fences[place] = tonumber(field), form.fence
    found.lanes[place], found.handed[place] = book.name, form.handed .. rest .. form.behind
  end
  start_all(book, group, alike_ones, rank)
  for i = taken + 1, #fields do
    offered[fields[i]] = texts[i] or nil
  end
  order:drop_front(taken)
  runs.count_started(taken)
  workers.move(worker.id, lent, true)
  workers.count(worker.id, book.name, taken)
end
