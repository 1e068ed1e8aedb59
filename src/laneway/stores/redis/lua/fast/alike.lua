-- needs: runtime/base, state/records, state/runs, state/logs, state/lanes, rules/turns, state/sessions, rules/shelves
-- needs: rules/flow, state/workers, rules/holding
-- Runs that are started, and that succeed, alike: what becomes of one is known from its state and whose it is, which it
-- shares with others of a batch. So its record is not read, but gets other bytes in front of what is its own.
--
-- Only runs with nothing requested, no messages, ties or waits (all of which are `rare`), and while no breaker is open.
-- All others go the long way (leases.lua, verbs/step.lua), which would do the same to these. What follows for others of
-- their users and sessions is for flow.lua to say.

local alike = {}
local INLINE, FIRST, NO_RESULT = records.INLINE, records.FIRST, pack(false)

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

-- What the newest records say of runs that were started is remembered from call to call, by the whole text, until
-- somebody asks: what their states say, whose they are, and what stands behind the state, but for the result that is not
-- there yet.
local flying, flown = {}, 0  -- by record: its place in these; how many places there are
local flown_is, flown_of, flown_rest = {}, {}, {}
local MOST_FLOWN = 2000  -- before all are forgotten

base.at_begin(function()
  if flown > MOST_FLOWN then
    flying, flown, flown_is, flown_of, flown_rest = {}, 0, {}, {}, {}
  end
end)

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
  local text = records.state_text(run)
  return {
    text = text, is = records.state_of(text), fence = run.fence, fronts = {},
    told = pack(run.fence, run.attempt, run.crashes, worker.id),  -- as the worker gets it
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
  return {text = records.state_text(run), fence = run.fence, fronts = {}}
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

-- Read at once what the ends of runs lead to, by whose they are: seats and sessions, and whom these will admit. Return
-- the sessions' books.
local function read_ahead(owners, count)
  local users, seen, named, fields, last = {}, {}, {}, {}, 0
  for i = 1, count do
    local of = owners[i]
    if of then
      local user, session = of.user, of.session
      if user and seen[user] ~= of.lane then
        local lane = of.lane
        local list = users[lane]
        if not list then
          list = {}
          users[lane] = list
        end
        list[#list + 1], seen[user] = user, lane
      end
      if session then
        last = last + 1
        named[last] = session
      end
    end
  end
  for lane, list in pairs(users) do
    lanes.seats(lanes.get(lane)):load(list)
  end
  local kept = sessions.load(named)
  for i = 1, last do
    local book = kept[named[i]]
    if book and not book.quick and book.held > 0 and book.held_of == sessions.NOBODY then
      fields[#fields + 1] = holding.first(named[i], book)
    end
  end
  runs.offer(fields)
  return kept
end

-- Return by place the forms of these records, and what of them is their own but for the result. Of those that have a user
-- or a session, of which few are alike: whose they are, what they become, and what stands behind the state; or where that
-- is remembered; and the sessions.
local function forms_of(texts, count, worker, told)
  local forms, rests, owners, afters, places = {}, {}, {}, {}, {}
  local own_at, look, any = records.own_at, records.look, false
  local parts, first, newest  -- of the newest plain one: its first two parts, where its own begins, its form
  for i = 1, count do
    local text = texts[i]
    local place = flying[text]
    if place then
      owners[i], places[i], flying[text], any = flown_of[place], place, nil, true  -- so it is of one place, once
    elseif text then
      local own, form
      if newest and find(text, parts, 1, true) == 1 then  -- which makes no text, as taking the parts out does
        own, form = first, newest
      elseif not any then
        parts, own = own_at(text)
        form = successes[parts]
        if not form then
          form = success_form(parts, worker, told)
          if form.plain then
            successes[parts] = form
          else
            form, any = nil, true
          end
        end
        first, newest = own, form
      end
      if not form then
        local is, of = look(text)
        local after = ended_states[is]
        if after == nil then
          after = success_of(is, worker, told)
        end
        owners[i], afters[i], own = of, after, FIRST + is.size
      end
      forms[i], rests[i] = form, sub(text, own, -2)
    end
  end
  return forms, rests, owners, afters, places, any and read_ahead(owners, count)
end

-- Count the runs as ended that became so: of plain ones by their forms, of others by lane.
local function count_successes(worker, fields, by_lane)
  runs.count_ended('succeeded', fields)
  workers.move_all(worker.id, fields, false)
  for _, form in pairs(successes) do
    local lane, count = form.of.lane, form.count
    if count > 0 then
      local book = lanes.get(lane)
      workers.count(worker.id, lane, -count)
      book.active = book.active - count
    end
  end
  for lane, count in pairs(by_lane) do
    local book = lanes.get(lane)
    workers.count(worker.id, lane, -count)
    book.active = book.active - count
  end
end

-- Let these runs succeed: lists of their numbers as texts, fences and results (false: none). `more` tells by place what
-- else is to be written, `told` the events. One that cannot do so alike is left to `settle(place)`, in its turn.
function alike.succeed(worker, fields, fences, values, more, told, settle)
  local texts, rewritten, offered, kept = runs.texts(fields)
  local hushed_now = is_hushed()
  local forms, rests, owners, afters, places, rosters = forms_of(texts, #fields, worker, told)
  local ended, by_lane, heads, before, last, finished = {}, {}, records.heads, records.before, 0, 0
  local flown_is, flown_rest, most = flown_is, flown_rest, INLINE
  local newest, becomes  -- a state, and what it becomes
  for i = 1, #fields do
    local field, value, form, after, rest = fields[i], values[i], forms[i], nil, nil
    if form then
      rest = rests[i]
    else
      local place = places[i]
      if not place then
        after, rest = afters[i], rests[i]
      else
        local is = flown_is[place]
        if is ~= newest then
          newest, becomes = is, success_of(is, worker, told)
        end
        after, rest = becomes, flown_rest[place]
      end
    end
    local found = form or after
    if not found or found.fence ~= fences[i] or not hushed_now or more[i] or rewritten[field] or (value and #value > most)
      or not (runs.kinds or kept[field] == nil) then  -- what came before has read it, and may have changed it
      offered[field] = texts[i] or nil
      if rosters then
        flow.finish(owners, fields, finished + 1, i - 1, rosters, by_lane)
      end
      settle(i)
      finished = i
    elseif form then
      rewritten[field] = value and form.front .. rest .. heads[#value] .. value or form.front .. rest .. NO_RESULT
      form.count, last = form.count + 1, last + 1
      ended[last] = field
    else
      local size = owners[i].size
      local front = after.fronts[size] or before(after, size)
      rewritten[field] = value and front .. rest .. heads[#value] .. value or front .. rest .. NO_RESULT
      last = last + 1
      ended[last] = field
    end
  end
  if rosters then
    flow.finish(owners, fields, finished + 1, #fields, rosters, by_lane)
  end
  count_successes(worker, ended, by_lane)
end

-- Starts --------------------------------------------------------------------------------------------------------------

-- What the worker gets of runs that are started alike (codec/decode.py): what they have in common, and of each what is its
-- own, but for the result. Few runs of users and sessions share whose they are, so that is each one's own there.
local SHARED, SHARED_WIDTH, OWN, OWN_WIDTH = '\154', 4, '\149', 9

-- Return what the first two parts of a record become by a start: `handed` is what the worker gets of all that have the
-- same ones, `width` of how many values their own is then, and `more` how much of the second part belongs to it. False if
-- runs like this have to be looked at one by one.
local function start_form(parts, worker)
  local is, of, whose = records.parts_of(parts)
  local after = not of.session and not has(is.kind, BACK) and start_of(is, worker)
  if not after then
    return false
  elseif of.user then
    return {
      of = of, kind = is.kind, front = records.before(after, of.size), fence = after.fence,
      handed = OWN .. after.told, width = OWN_WIDTH, more = of.size,
    }
  end
  return {
    of = of, kind = is.kind, front = records.front(after.text, whose), fence = after.fence,
    handed = SHARED .. whose .. after.told, width = SHARED_WIDTH, more = 0,
  }
end

-- Tell whether its user keeps such a run from starting.
local function is_kept(book, form)
  local of = form.of
  return of.user and turns.must_park(book, of.user, lanes.seat(book, of.user), of.priority, form.kind)
end

local function start_all(book, form, count, rank)
  if form and count > 0 then
    local of = form.of
    turns.start(book, of.priority, of.user and lanes.seat(book, of.user), form.kind, tonumber(rank), count)
  end
end

-- Note that the worker has the leases of these runs, which are started: their numbers as texts.
function alike.lend(worker, lane, fields)
  runs.count_started(#fields)
  workers.move_all(worker.id, fields, true)
  workers.count(worker.id, lane, #fields)
end

-- Let what is handed to the worker from the next place on, which is returned, stand behind this text, as so many values
-- each (`replies.add_grouped`).
function alike.group(found, front, width)
  local groups, place = found.groups, #found.fields + 1
  local newest = groups[#groups]
  if not newest or newest[2] ~= front then
    groups[#groups + 1] = {place, front, width}
  end
  return place
end

-- Note under which fence what is found from that place on is leased.
function alike.fence(found, place, fence)
  local spans = found.fences
  if spans[#spans] ~= fence then
    spans[#spans + 1], spans[#spans + 2] = place, fence
  end
end

-- Return of a run that is accepted and started in one call its record, what the worker gets of it as its own, and the form
-- of such runs; nil if it has to be looked at.
function alike.started_new(worker, task, lane, priority, id, args)
  local front, times = records.fresh(task, lane, false, priority)
  local form = start_form(front, worker)
  if not form then
    return nil
  end
  local rest = records.heads[#id] .. id .. times .. records.heads[#args] .. args
  return form.front .. rest .. NO_RESULT, rest, form
end

-- Start runs from the front of a lane's ready order as long as they can be started alike and nothing follows from it:
-- up to `count`, of these `tasks`. Adds them to what was `found` (claiming.lua).
function alike.start(worker, book, count, tasks, found)
  local order = shelves.ready(book.name)
  local page, at = order:front_page(count)
  if not page or not is_hushed() then
    return
  end
  local fields = base.fields_of(page, at, count)
  local texts, rewritten, offered = runs.texts(fields)
  local taken, lent, own_at, started, handed = 0, {}, records.own_at, found.fields, found.handed
  local group, alike_ones, rank  -- the form that the newest ones have, how many they are, and the last one's rank
  local parts, own, form  -- of the newest
  for i = 1, #fields do
    local field, text = fields[i], texts[i]
    if not text or rewritten[field] or records.has_no_args(text) then
      break
    end
    if not parts or find(text, parts, 1, true) ~= 1 then  -- which makes no text, as taking the parts out does
      parts, own = own_at(text)
      form = starts[parts]
    end
    if form == nil then
      form = start_form(parts, worker)
      starts[parts] = form
    end
    if form ~= group or form and form.of.user then  -- what its user may have must be known before it is looked at
      start_all(book, group, alike_ones, rank)
      group, alike_ones = form, 0
      if not form or not tasks[form.of.task] or is_kept(book, form) then
        break
      end
      alike.fence(found, alike.group(found, form.handed, form.width), form.fence)
    end
    alike_ones, rank = alike_ones + 1, page[at + 2 * i - 1]
    local rest, place = sub(text, own - form.more, -2), #started + 1
    rewritten[field] = form.front .. rest .. NO_RESULT
    taken, lent[i] = i, field
    started[place], handed[place] = field, rest
  end
  start_all(book, group, alike_ones, rank)
  for i = taken + 1, #fields do
    offered[fields[i]] = texts[i] or nil
  end
  order:drop_front(taken)
  alike.lend(worker, book.name, lent)
end

-- Return three functions. The first tells of a run, by its number and that as text, whether it can be started without being
-- read: its record, its state, whose it is, as what kind it comes, and what it becomes; nothing of one that has to be
-- read. The second writes of such a run that it is started, and all else is done, and adds it to what was `found`. The
-- third takes from the lane's order, as long as such come first there, up to so many runs that were never started
-- before, of users who may have them by the cap that all have, and whose starts let nobody into their
-- sessions. It does with them all that there is to do, but for the lane's counts of what is active and pending, adds
-- their numbers as texts to those `lent`, and returns how many they were.
function alike.starter(worker, book, tasks, found)
  local hushed_now, look = is_hushed(), records.look
  local rewritten, offered, kept, kinds, looked_at, owners = runs.unread()
  local lone_of, seats, cap = runs.lone, lanes.seats(book).kept, nil
  if next(lone_of) ~= nil or next(seats) ~= nil then
    cap = lanes.common_cap(book)
  end
  local fields, handed, grouped = found.fields, found.handed, nil
  local paces, rosters, looked, looked_of = book.paces, sessions.load({}), records.looked()

  local function start_of_run(number, field)
    local text = offered[field]
    if not text or kept[field] ~= nil or rewritten[field] or not hushed_now or byte(text, -2) == 0xc2 then
      return nil
    end
    local is, of = looked_at[field], owners[field]
    if not is then
      is, of = look(text)
    end
    local after = started_states[is]
    if after == nil then
      after = start_of(is, worker)
    end
    if after and tasks[of.task] then
      return text, is, of, kinds[number] or (lone_of[number] and BACK) or is.kind, after
    end
    return nil
  end

  local function start_as(number, field, text, is, of, after)
    local rest, size, place = sub(text, FIRST + is.size, -2), of.size, #fields + 1
    local record = (after.fronts[size] or records.before(after, size)) .. rest .. NO_RESULT
    if grouped ~= after or handed[place - 1] == nil then  -- nil: it was started otherwise
      grouped = after
      alike.fence(found, alike.group(found, OWN .. after.told, OWN_WIDTH), after.fence)
    end
    fields[place], handed[place] = field, rest
    rewritten[field], kinds[number], lone_of[number] = record, nil, nil
    local last = flown + 1
    flown, flying[record], flown_is[last], flown_of[last], flown_rest[last] = last, last, after.is, of, rest
  end

  local function start_straight(order, room, lent)
    if not runs.kinds then
      return 0
    end
    local lists = order.lists or order:arrange()
    local place, count, leases, steps, offered, lone_of, looked, looked_of =
      #fields, 0, #lent, order.steps, offered, lone_of, looked, looked_of
    local fields, handed, rewritten, seats, cap, tasks, byte, sub = fields, handed, rewritten, seats, cap, tasks, byte, sub
    local flies, flying, flown_is, flown_of, flown_rest = flown, flying, flown_is, flown_of, flown_rest
    local is, after, becomes, fronts, size  -- of the newest
    while count < room do
      -- The first of the order, as `order:take` takes it.
      local left, last, rank, list, number, at = order.left, #steps, nil, nil, nil, nil
      if order.is_passed then
        if left == 0 then
          break
        end
        rank = steps[last]
        list = lists[rank]
        if not list.sorted then
          rank, list = order:first_put()
        end
        at = list.at
        number = list[at]
      else
        rank, number, list = order:first()
        at = list and list.at
      end
      local lone = lone_of[number]
      local field = lone or (number and base.digits(number))
      local text = field and offered[field]
      if not text then
        break
      end
      -- What its record says, as `records.look` tells it, and what it becomes.
      local a, b, c = byte(text, 6, 8)
      local front = sub(text, 1, a * 65536 + b * 256 + c)
      local was, of = looked[front], looked_of[front]
      if not was then
        was, of = look(text)
      end
      if was ~= is then
        is, after, size = was, start_of(was, worker), FIRST + was.size
        becomes, fronts = after and after.is, after and after.fronts
      end
      local seat, priority = seats[of.user], of.priority
      if not after or not seat or seat.active >= cap or not tasks[of.task] or byte(text, -2) == 0xc2 then
        break
      end
      if not lone then
        local roster = rosters[of.session]
        local admitted = roster and roster.simple and roster.admitted
        if (kinds[number] or is.kind) ~= FRESH or seat.parked > 0 or seat.out >= OUT + priority
          or not admitted or admitted[1] ~= number or admitted[2] then
          break
        end
        roster.unstarted_then = 0
      end
      -- It is taken,
      if not list then
        order:take_member()
      else
        order.left = left - 1
        if at < list.last then
          list.at = at + 1
        else
          lists[rank], steps[last] = nil, nil
        end
      end
      -- waits no more, as `turns.start` says it,
      local pace, tag, waiting = paces[priority], rank + HEAD_START * priority, seat.turns
      pace.ready = pace.ready - 1
      if tag > pace.v then
        pace.v = tag
      end
      seat.active = seat.active + 1
      for i = 1, #waiting, 3 do
        if waiting[i] == priority then
          waiting[i + 2] = waiting[i + 2] - 1
          break
        end
      end
      -- and is started, as above.
      count = count + 1
      if grouped ~= after or handed[place] == nil then
        grouped = after
        alike.fence(found, alike.group(found, OWN .. after.told, OWN_WIDTH), after.fence)
      end
      place = place + 1
      local rest, whose = sub(text, size, -2), of.size
      local record = (fronts[whose] or records.before(after, whose)) .. rest .. NO_RESULT
      fields[place], handed[place], rewritten[field], flies = field, rest, record, flies + 1
      lent[leases + count] = field
      flying[record], flown_is[flies], flown_of[flies], flown_rest[flies] = flies, becomes, of, rest
      if lone then
        lone_of[number], seat.out = nil, 0
        if seat.parked > 0 and seat.active < cap then
          bring_first(book, of.user, seat)
          if not runs.kinds then
            break
          end
        end
      else
        kinds[number] = nil
      end
    end
    flown = flies
    return count
  end

  local function start_none()
    return 0
  end

  return start_of_run, start_as, hushed_now and cap and start_straight or start_none
end
