-- needs: admin/snapshot, admin/places, state/workers, rules/queue/circuits, rules/queue/sessions
-- Putting every run into its right place. This repairs what verbs/check.py finds; admin/recount.lua sets the counts
-- then.

local repair = {spots = {}}  -- {run, shelf, gate}: the place of each run afterwards

local function take_out(number, place)
  local shelf, field = place[1], base.digits(number)
  if shelf == 'lease' then
    workers.move(place[2], {field}, false)
  elseif BESIDE[shelf] then
    call_later('SREM', shelf .. '_runs', field)
  elseif shelf ~= 'nowhere' and shelf ~= 'unlisted' then
    cached_zset.at(shelf_keys.of(shelf, place[2], place[3])):remove(number)
  end
end

local function add_spot(run, shelf, gate)
  repair.spots[#repair.spots + 1] = {run, shelf, gate}
end

-- Put a run on the due shelf, from where the next step takes it in by the usual rules; at worst it loses its turn.
local function strand(run)
  runs.set_state(run, 'pending')
  run.shelf, run.holder, run.worker, run.lapsed = false, false, false, nil
  run.kind = run.fence > 0 and AGAIN or FRESH
  local book = run.session and run.fence == 0 and sessions.find(run.session)
  if book and base.remove_from(book.admitted, run.number) and book.unstarted == run.number then
    book.unstarted = 0  -- it joins again, and would wait for itself
  end
  shelves.put_due(run)
  add_spot(run, 'due')
end

local function is_right(run, place)
  local shelf, owner = place[1], place[2]
  if run.shelf ~= shelf then
    return false
  elseif shelf == 'parked' then
    return run.lane == owner and shelves.gate_of(run) == place[3]
  end
  return shelf == 'due' or owner == (shelf == 'held' and run.session or run.lane)
end

-- Leave a run in the first of these places that `fits`, take it out of all others, and return that place.
local function leave_in(run, list, fits)
  local left
  for _, place in ipairs(list) do
    if not left and fits(place) then
      left = place
    else
      take_out(run.number, place)
    end
  end
  return left
end

local function on_shelves(list)
  local count = 0
  for _, place in ipairs(list) do
    local shelf = place[1]
    count = count + ((shelf == 'nowhere' or shelf == 'unlisted') and 0 or 1)
  end
  return count
end

local put_right = {}  -- by state

function put_right.running(run, list)
  local left = leave_in(run, list, function(place)
    return place[1] == 'lease' and workers.find(place[2])
  end)
  if not left then
    return strand(run)
  end
  run.holder = left[2]
  add_spot(run, 'lease')
end

function put_right.pending(run, list)
  local alone = on_shelves(list) == 1
  local left = leave_in(run, list, function(place)
    return alone and is_right(run, place)
  end)
  if not left then
    return strand(run)
  end
  add_spot(run, left[1], left[3])
end

function put_right.paused(run, list)
  local listed, held = false, false
  for _, place in ipairs(list) do
    if place[1] == 'paused' then
      listed = true
    elseif place[1] == 'held' and is_right(run, place) then
      held = true
    else
      take_out(run.number, place)
    end
  end
  if not listed then
    call_later('SADD', 'paused_runs', base.digits(run.number))
  end
  run.shelf = held and 'held' or false
  add_spot(run, held and 'held' or 'paused')
end

function put_right.waiting(run, list)
  local wait = run.wait
  if not wait or (#wait.questions == 0 and #wait.calls == 0) then
    leave_in(run, list, function() return false end)
    return strand(run)
  end
  local left = leave_in(run, list, function(place)
    return place[1] == 'waiting'
  end)
  if not left then
    call_later('SADD', 'waiting_runs', base.digits(run.number))
  end
  add_spot(run, 'waiting')
end

-- List a run by its id and, if it has ended, by its end.
local function list_again(run)
  base.set_text('ids', run.id, base.digits(run.number))
  if TERMINAL[run.state] then
    call_later('ZADD', 'ended:' .. run.state, run.ended_at, base.member(run.number))
  end
end

local function repair_runs()
  local lists = {}
  for _, place in ipairs(places.all) do
    for _, number in ipairs(place[4]) do
      lists[number] = lists[number] or {}
      table.insert(lists[number], place)
    end
  end
  local numbers = base.sorted_keys(lists)
  runs.load(numbers)
  for _, number in ipairs(numbers) do
    local run, list = runs.get(number), lists[number]
    for _, place in ipairs(list) do
      if run and place[1] == 'unlisted' then
        list_again(run)
      end
    end
    if run and not TERMINAL[run.state] then
      put_right[run.state](run, list)
    else
      leave_in({number = number}, list, function() return false end)
    end
  end
end

-- Delete what is left of runs that do not exist.
local function drop_orphans()
  for _, orphan in ipairs(places.orphans) do
    local name, field, number = orphan[1], orphan[2], base.digits(orphan[3])
    if sub(name, 1, 6) == 'ended:' then
      call_later('ZREM', name, field)
    else
      base.set_text(name, field, false)
    end
    call_later('UNLINK', 'log:' .. number)
    call_later('UNLINK', 'memos:' .. number)
    call_later('UNLINK', 'taken:' .. number)
  end
end

-- Let `deadlines` have the runs that wait for an answer, and no others.
local function repair_deadlines()
  local order, asked = cached_zset.at('deadlines'), {}
  for _, one in ipairs(repair.spots) do
    if one[2] == 'waiting' then
      asked[one[1].number] = runs.deadline(one[1])
    end
  end
  local found = call('ZRANGE', PREFIX .. 'deadlines', 0, -1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local number, at = tonumber(found[i]), tonumber(found[i + 1])
    if asked[number] == at then
      asked[number] = nil
    else
      order:remove(number)
    end
  end
  for number, at in pairs(asked) do
    order:put(at, number)
  end
end

local function repair_circuits()
  for key in pairs(base.set('open')) do
    circuits.put(key, circuits.get(key))
  end
  for key, circuit in pairs(kept_circuits:all()) do
    local run = circuit[3] and runs.get(circuit[3])
    if circuit[3] and not (run and run.state == 'running' and run.fence == circuit[4]) then
      circuit = {circuit[1], circuit[2], false, false}
    end
    circuits.put(key, circuit)
  end
end

-- Let `jobs_due` have every job at the time that its state says.
local function repair_jobs()
  local due, flat = {}, due_times()
  for i = 1, #flat, 2 do
    due[flat[i]] = flat[i + 1] or nil
  end
  for _, id in ipairs(call('ZRANGE', PREFIX .. 'jobs_due', 0, -1)) do
    if not due[id] then
      call_later('ZREM', 'jobs_due', id)
    end
  end
  for id, at in pairs(due) do
    call_later('ZADD', 'jobs_due', base.digits(at), id)
  end
end

function repair.places()
  repair_runs()
  drop_orphans()
  repair_deadlines()
  repair_circuits()
  repair_jobs()
end
