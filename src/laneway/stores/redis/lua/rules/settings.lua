-- needs: runtime/cached_hash, rules/control_call
-- What operators set: limits, caps, rules, and what is paused or disabled. This restates
-- stores/memory/rules/settings.py.
--
-- Hashes `declared` and `ruled`: lane -> {limit, per_user, worker_limit, max_pending, when_full}, by code and by
-- operators. Set `unlisted`: lanes whose policy has become drop_old, and whose older runs are not in `fresh:<lane>` yet
-- (verbs/settings/index_lane.lua). Hash `set_caps`: lane, line break, user -> the cap that an operator has set. Sets
-- `paused_users`, `paused_tasks`, `paused_sessions`, `disabled` (tasks).

local settings = {}
local declared, ruled = cached_hash.at('declared'), cached_hash.at('ruled')

function settings.unknown_lane(name)
  return base.refusal('unknown_lane', name, unpack(base.sorted_keys(lanes.all())))
end

-- Set a user's cap in a lane: 0 while the user is paused, else the operator's, else the lane's.
local function judge_cap(book, user)
  local set = base.text('set_caps', book.name .. '\n' .. user)
  local cap = base.set('paused_users')[user] and 0 or (set and tonumber(set)) or false
  lanes.set_cap(book, user, cap)
end

local function users_of(book)
  return base.sorted_keys(lanes.seats(book):all())
end

local function drops_old(book)
  return book ~= nil and book.max_pending ~= false and book.when_full == 'drop_old'
end

local function judge_lane(name)
  local holds = ruled:find(name) or declared:find(name)
  local book = lanes.find(name)
  local dropped_old = drops_old(book)
  if not book then
    book = {name = name, paused = false, active = 0, pending = 0, paces = {}}
    lanes.put(name, book)
    for user in pairs(base.set('paused_users')) do
      judge_cap(book, user)
    end
  end
  book.limit, book.per_user, book.worker_limit, book.max_pending, book.when_full =
    holds[1], holds[2], holds[3], holds[4], holds[5]
  if drops_old(book) ~= dropped_old then
    base.put_in('unlisted', name, not dropped_old)
    if dropped_old then
      call_later('DEL', 'fresh:' .. name)
    end
  end
  admission.reopen(name, users_of(book))
end

local function same(one, other)
  for i = 1, 5 do
    if not one or one[i] ~= other[i] then
      return false
    end
  end
  return true
end

-- Set what code declares about lanes: {name, values}.
function settings.declare(all)
  for _, lane in ipairs(all) do
    if not same(declared:find(lane[1]), lane[2]) then
      declared:put(lane[1], lane[2])
      judge_lane(lane[1])
    end
  end
end

function settings.set_lane(name, values)
  ruled:put(name, values)
  if not declared:find(name) then
    declared:put(name, values)
  end
  judge_lane(name)
end

function settings.unset_lane(name)
  ruled:drop(name)
  judge_lane(name)
end

-- Apply a user's caps in all lanes, and bring back the runs that they let start.
local function judge_user(user)
  for _, name in ipairs(base.sorted_keys(lanes.all())) do
    local book = lanes.get(name)
    judge_cap(book, user)
    if lanes.seats(book):find(user) then
      admission.reopen(name, {user})
    end
  end
end

-- Apply a user's caps in all lanes without bringing back runs: for a store that is filled from another one.
function settings.judge_caps(user)
  for name in pairs(lanes.all()) do
    judge_cap(lanes.get(name), user)
  end
end

function settings.set_cap(user, lane, cap)
  base.set_text('set_caps', lane .. '\n' .. user, cap and base.digits(cap))
  judge_user(user)
end

-- Set the given values of a session's rule; an empty rule without `throttled` deletes all.
function settings.set_session(name, rule, throttled)
  local rules = cached_hash.at('session_rules')
  local set = {}
  if next(rule) ~= nil or throttled ~= nil then
    set = sessions.over(rule, rules:find(name) or {})
  end
  if next(set) == nil then
    rules:drop(name)
  else
    rules:put(name, set)
  end
  local book = sessions.find(name)
  if book then
    sessions.rule(book, set)
    if throttled ~= nil then
      book.throttled = throttled
    end
    admission.let_go_on(name, {})
  end
end

local function hold_session(name, book, held)
  book.paused = held
  local waiting = {}
  runs.load(book.admitted)
  for _, number in ipairs(book.admitted) do
    local run = runs.get(number)
    if run.state == 'pending' then
      waiting[#waiting + 1] = run
    end
  end
  local still = {}
  for _, run in ipairs(waiting) do
    local shelf = run.shelf
    if held and (shelf == 'ready' or shelf == 'parked') then
      shelves.remove(run)
      admission.keep_still(run, shelf)
    elseif not held and has(run.kind, STILL) then
      shelves.remove(run)
      still[#still + 1] = run
    end
  end
  if not held then
    admission.let_go_on(name, still)
  end
end

-- Pause or resume a lane, user, session or task.
function settings.hold(what, name, held)
  if what == 'lane' then
    lanes.get(name).paused = held
  elseif what == 'task' then
    base.put_in('paused_tasks', name, held)
  elseif what == 'user' then
    base.put_in('paused_users', name, held)
    judge_user(name)
  else
    base.put_in('paused_sessions', name, held)
    local book = sessions.find(name)
    if book and book.paused ~= held then
      hold_session(name, book, held)
    end
  end
end

-- Wake workers and flush. Return the reply: the lanes whose runs are still to be listed.
function settings.done()
  base.wrote_events = true
  wakeups.wake()
  base.flush()
  return pack(base.sorted_keys(base.set('unlisted')))
end
