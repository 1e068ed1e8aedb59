-- needs: admin/repair, rules/queue/admission
-- Setting the counts of lanes, users and sessions to what they must be. This restates core/queue/audit.py: the counts
-- must be right when the script ends, so Python cannot compute them in between.

local recount = {}

local function empty(book)
  book.active, book.pending, book.was_working = 0, 0, nil
  for _, pace in pairs(book.paces) do
    pace.ready, pace.waiting = 0, 0
  end
  for _, seat in pairs(lanes.seats(book):all()) do
    seat.active, seat.parked, seat.out = 0, 0, 0
    for at = 3, #seat.turns, 3 do
      seat.turns[at] = 0
    end
  end
end

local function ready_at(book, priority)
  if not book.paces[priority] then
    local most = 0
    for _, pace in pairs(book.paces) do
      most = max(most, pace.v)
    end
    book.paces[priority] = {v = most, ready = 0, last = 0, waiting = 0}
  end
  return book.paces[priority]
end

local gates = {aside = {}, broken = {}}  -- by kind, then lane: a table of trues

local function count_parked(book, run, gate)
  local what, name = match(gate, '^(%a+):(.*)$')
  local kind = what == 'task' and 'aside' or what == 'breaker' and 'broken'
  if kind then
    gates[kind][book.name] = gates[kind][book.name] or {}
    gates[kind][book.name][name] = true
  elseif what == 'user' then
    local seat = lanes.seat(book, run.user)
    seat.parked = seat.parked + 1
  end
end

local function count_in_lane(run, shelf, gate)
  local book = lanes.get(run.lane)
  if shelf == 'lease' then
    book.active = book.active + 1
    if run.user then
      local seat = lanes.seat(book, run.user)
      seat.active = seat.active + 1
    end
    return
  elseif BESIDE[shelf] or run.state == 'paused' then
    return
  end
  book.pending = book.pending + 1
  if shelf == 'ready' then
    local pace = ready_at(book, run.priority)
    pace.ready = pace.ready + 1
    if run.user and has(run.kind, BACK) then
      lanes.seat(book, run.user).out = OUT + run.priority
    end
  elseif shelf == 'parked' then
    count_parked(book, run, gate)
  end
  if (shelf == 'ready' or shelf == 'parked') and not has(run.kind, AGAIN) and not has(run.kind, STILL) then
    ready_at(book, run.priority)
    turns.count_waiting(book, run.user, run.priority)
  end
end

local function set_lanes()
  local books = lanes.all()
  for _, book in pairs(books) do
    empty(book)
  end
  for _, spot in ipairs(repair.spots) do
    count_in_lane(spot[1], spot[2], spot[3])
  end
  for _, book in pairs(books) do
    for _, pace in pairs(book.paces) do
      pace.last = pace.waiting > 0 and pace.last or 0
    end
    for _, seat in pairs(lanes.seats(book):all()) do
      lanes.drop_turns(seat)
    end
  end
end

-- Let the sets `aside` and `broken` have the tasks and circuits with parked sets, and no others.
local function set_gates()
  for kind, by_lane in pairs(gates) do
    for _, lane in ipairs(base.sorted_keys(lanes.all())) do
      local right = by_lane[lane] or {}
      for _, name in ipairs(base.sorted_keys(base.set(kind .. ':' .. lane))) do
        base.put_in(kind .. ':' .. lane, name, right[name] or false)
      end
      for name in pairs(right) do
        base.put_in(kind .. ':' .. lane, name, true)
      end
      base.put_in(kind .. '_lanes', lane, next(right) ~= nil)
    end
  end
end

-- Sessions --------------------------------------------------------------------------------------------------------

local function place_of(run, shelf, book, again)
  if shelf == 'held' then
    return again and 'outside' or nil
  elseif shelf == 'due' or BESIDE[shelf] then
    if base.index_of(book.admitted, run.number) then
      return 'admitted'
    elseif base.index_of(book.outside, run.number) then
      return 'outside'
    end
    return again and 'admitted' or nil
  end
  return 'admitted'
end

local function counted(spots, book)
  local found = {admitted = {}, outside = {}, asking = {}, unstarted = 0, held = 0, back = 0}
  for _, spot in ipairs(spots) do
    local run, shelf = spot[1], spot[2]
    local again = run.fence > 0
    if not BESIDE[shelf] then
      again = has(run.kind, AGAIN)
    end
    local place = place_of(run, shelf, book, again)
    if place then
      table.insert(found[place], run.number)
    end
    if place == 'admitted' and shelf ~= 'lease' and not again then
      found.unstarted = run.number
    end
    if shelf == 'held' then
      found.held, found.back = found.held + 1, found.back + (again and 1 or 0)
    end
    if shelf == 'waiting' and #run.wait.questions > 0 then
      table.insert(found.asking, run.number)
    end
  end
  return found
end

local function agrees(book, found)
  return #book.admitted == #found.admitted and #book.outside == #found.outside and #book.asking == #found.asking
    and (book.unstarted > 0) == (found.unstarted > 0) and book.held == found.held and book.back == found.back
end

-- Set a session's lists by the places of its runs. Sessions that agree are left alone: they keep the order of
-- admission.
local function list_again(name, book, found)
  for _, list in ipairs({'admitted', 'outside', 'asking'}) do
    table.sort(found[list])
    book[list] = found[list]
  end
  book.unstarted, book.held, book.back = found.unstarted, found.held, found.back
  local key = PREFIX .. 'held:' .. name
  local first, last = call('ZRANGE', key, 0, 0, 'WITHSCORES'), call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  book.front = min(book.front, tonumber(first[2] or 0))
  book.joined = max(book.joined, tonumber(last[2] or 0))
end

local function set_sessions()
  local spots = {}
  for name in pairs(kept_sessions:all()) do
    spots[name] = {}
  end
  for _, spot in ipairs(repair.spots) do
    local name = spot[1].session
    if name then
      spots[name] = spots[name] or {}
      table.insert(spots[name], spot)
    end
  end
  for _, name in ipairs(base.sorted_keys(spots)) do
    local book = sessions.get(name)
    local found = counted(spots[name], book)
    if not agrees(book, found) then
      list_again(name, book, found)
    end
  end
  return base.sorted_keys(spots)
end

-- Bring back runs that have room now.
local function let_go_on(names)
  for _, lane in ipairs(base.sorted_keys(lanes.all())) do
    admission.reopen(lane, base.sorted_keys(lanes.seats(lanes.get(lane)):all()))
  end
  for _, name in ipairs(names) do
    local book = sessions.get(name)
    if book.held > 0 and sessions.admits(book) then
      admission.let_go_on(name, {})
    end
    sessions.empty_if_idle(name, book)
  end
end

-- Set how many runs of which lanes each incarnation executes.
local function set_busy()
  local counted = {}
  for _, spot in ipairs(repair.spots) do
    local run = spot[1]
    if spot[2] == 'lease' and not run.lapsed then
      counted[run.holder] = counted[run.holder] or {}
      counted[run.holder][run.lane] = (counted[run.holder][run.lane] or 0) + 1
    end
  end
  for _, worker in ipairs(workers.all()) do
    local right, stored = counted[worker.id] or {}, base.all_texts('busy:' .. worker.id)
    for lane, count in pairs(right) do
      workers.count(worker.id, lane, count - tonumber(stored[lane] or 0))
    end
    for lane, count in pairs(stored) do
      workers.count(worker.id, lane, right[lane] and 0 or -tonumber(count))
    end
  end
end

-- Set the totals by state and by thousand, if all runs were read.
local function set_totals()
  if not places.is_deep then
    return
  end
  for _, state in ipairs(STATES) do
    base.count('states', state, (places.counted[state] or 0) - places.totals[state])
  end
  base.count('counters', 'long_args', places.totals.counted_long_args - places.totals.long_args)
  local stored = base.all_texts('blocks')
  for block, count in pairs(places.blocks) do
    base.count('blocks', block, count - tonumber(stored[block] or 0))
  end
  for block, count in pairs(stored) do
    if not places.blocks[block] then
      base.count('blocks', block, -tonumber(count))
    end
  end
end

function recount.set()
  set_totals()
  set_lanes()
  set_gates()
  set_busy()
  let_go_on(set_sessions())
end
