-- needs: base, records, runs, logs, lanes, sessions, shelves, flow, workers
-- Runs that are started, and that succeed, alike: what becomes of one is known from its state and whose it is, which it
-- shares with others of a batch. So its record is not read, but gets other bytes in front of what is its own.
--
-- Only runs with nothing requested, no messages, ties or waits (all of which are `rare`), and while no breaker is open.
-- All others go the long way (leases.lua, verbs/step.lua), which would do the same to these. What follows for others of
-- their users and sessions is for flow.lua to say.

local alike = {}

local starts, successes = {}, {}  -- by the first two parts of a record: what they become
local started_states, ended_states = {}, {}  -- by state, whosever it is; false if the run has to be looked at
local hushed  -- no breaker is open

base.at_begin(function()
  starts, successes, started_states, ended_states, hushed = {}, {}, {}, {}, nil
end)

local function is_hushed()
  if hushed == nil then
    hushed = next(base.set('open')) == nil
  end
  return hushed
end

-- What a state becomes -------------------------------------------------------------------------------------------------

local function started(is, worker)
  local told = logs.started(worker.id)
  if is.state ~= 'pending' or is.rare or has(is.kind, ASIDE) or not logs.fit(is, told) then
    return false
  end
  local run = records.alone(is)
  run.state, run.kind, run.shelf, run.worker, run.holder = 'running', AGAIN, false, worker.id, worker.id
  run.started_at, run.fence = NOW, run.fence + 1
  logs.say(run, told)
  return {
    text = records.state_text(run), fence = run.fence, behind = pack(run.fence, run.attempt, run.crashes, worker.id),
  }
end

-- Return what a state becomes by a start; false if the run has to be looked at.
local function start_of(is, worker)
  local after = started_states[is]
  if after == nil then
    after = started(is, worker)
    started_states[is] = after
  end
  return after
end

local function succeeded(is, worker, told)
  if is.state ~= 'running' or is.rare or is.holder ~= worker.id or not logs.fit(is, told) then
    return false
  end
  local run = records.alone(is)
  run.state, run.ended_at, run.worker, run.holder, run.crashes = 'succeeded', NOW, false, false, 0
  logs.say(run, told)
  return {text = records.state_text(run), fence = run.fence}
end

-- Return what it becomes by a success under this worker's lease; as above.
local function success_of(is, worker, told)
  local after = ended_states[is]
  if after == nil then
    after = succeeded(is, worker, told)
    ended_states[is] = after
  end
  return after
end

-- Successes -----------------------------------------------------------------------------------------------------------

-- Return what the first two parts of a record become by a success: `front`, false if it is not known.
local function success_form(parts, worker, told)
  local is, of, whose = records.parts_of(parts)
  local after = success_of(is, worker, told)
  return {
    of = of, front = after and records.front(after.text, whose), fence = after and after.fence,
    plain = not of.user and not of.session, count = 0,
  }
end

-- Return by place the forms of these records, and where their own parts begin. Their sessions are read all at once.
local function forms_of(texts, count, worker, told)
  local forms, ats, named, own_at = {}, {}, {}, records.own_at
  for i = 1, count do
    local text = texts[i]
    if text then
      local parts, at = own_at(text)
      local form = successes[parts]
      if not form then
        form = success_form(parts, worker, told)
        successes[parts] = form
      end
      forms[i], ats[i] = form, at
      named[#named + 1] = form.of.session or nil
    end
  end
  if #named > 0 then
    sessions.load(named)
  end
  return forms, ats
end

-- Count the runs as ended that became so.
local function count_successes(worker, fields)
  runs.count_ended('succeeded', fields)
  workers.move(worker.id, fields, false)
  for _, form in pairs(successes) do
    local of, count = form.of, form.count
    if count > 0 then
      workers.count(worker.id, of.lane, -count)
      if form.plain then
        lanes.stop(lanes.get(of.lane), of, count)
      end
    end
  end
end

-- Let these runs succeed: lists of their numbers as texts, fences and results (false: none). `more` tells by place what
-- else is to be written, `told` the events. One that cannot do so alike is left to `settle(place)`, in its turn.
function alike.succeed(worker, fields, fences, values, more, told, settle)
  local texts, rewritten, offered = runs.texts(fields)
  local forms, ats = forms_of(texts, #fields, worker, told)
  local ended, heads = {}, records.heads
  for i = 1, #fields do
    local field, text, value, form = fields[i], texts[i], values[i], forms[i]
    if form and form.fence == fences[i] and not more[i] and not rewritten[field] and is_hushed()
      and not (value and records.is_long(value)) then
      rewritten[field] = value and form.front .. string.sub(text, ats[i], -2) .. heads[#value] .. value
        or form.front .. string.sub(text, ats[i])
      form.count = form.count + 1
      ended[#ended + 1] = field
      if not form.plain then
        flow.free(form.of)
        flow.ended(form.of, tonumber(field))
      end
    else
      offered[field] = text or nil
      settle(i)
    end
  end
  count_successes(worker, ended)
end

-- Starts --------------------------------------------------------------------------------------------------------------

-- Return what the first two parts of a record become by a start; `handed` is what stands before its own as the worker
-- gets it (runs.handed). False if runs like this have to be looked at one by one.
local function start_form(parts, worker)
  local is, of, whose = records.parts_of(parts)
  local after = not of.session and not has(is.kind, BACK) and start_of(is, worker)
  return after and {
    of = of, kind = is.kind, after = after, front = records.front(after.text, whose), handed = HANDED .. whose,
  }
end

local function start_all(book, form, count, rank)
  if form and count > 0 then
    lanes.start(book, form.of, form.kind, tonumber(rank), count)
  end
end

-- Note that the worker has the leases of these runs, which are started: their numbers as texts.
function alike.lend(worker, lane, fields)
  runs.count_started(#fields)
  workers.move(worker.id, fields, true)
  workers.count(worker.id, lane, #fields)
end

-- Start runs from the front of a lane's ready order as long as they can be started alike and nothing follows from it:
-- up to `count`, of these `tasks`. Adds them to what was `found` (claiming.lua).
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
      form = start_form(parts, worker)
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
    found.numbers[place], found.fences[place] = tonumber(field), form.after.fence
    found.lanes[place], found.handed[place] = book.name, form.handed .. rest .. form.after.behind
  end
  start_all(book, group, alike_ones, rank)
  for i = taken + 1, #fields do
    offered[fields[i]] = texts[i] or nil
  end
  order:drop_front(taken)
  alike.lend(worker, book.name, lent)
end

-- Start one run that was taken from its shelf and of which all else is done; returns its number as text, or nothing if
-- it has to go the long way.
function alike.start_one(worker, run, found)
  local is = is_hushed() and run.is
  local after = is and not records.has_no_args(run.text) and start_of(is, worker)
  if not after then
    return nil
  end
  local own, place = records.own(run), #found.numbers + 1
  found.numbers[place], found.fences[place], found.lanes[place] = run.number, after.fence, run.lane
  found.handed[place] = HANDED .. run.whose .. own .. after.behind
  return runs.rewrite(run, records.front(after.text, run.whose) .. own)
end
