-- needs: runtime/base, runtime/cached_hash
-- gives: sessions, kept_sessions
-- Admission to a session: an ordered series of runs, at most `max_concurrent` of them active. This restates
-- core/queue/sessions.py, which explains the rules; names are the same.
--
-- Hash `sessions`: name -> its book, while it is not idle. What operators have set is kept apart, also of idle
-- sessions: hash `session_rules` (packed rules) and set `paused_sessions`. A rule is a table of the values that are
-- given: max_concurrent, cap, drop, while_waiting, pass_on_retry.

local sessions = {}

local RULE = {'max_concurrent', 'cap', 'drop', 'while_waiting', 'pass_on_retry'}
local DEFAULT_RULE = {max_concurrent = 1, cap = 10, drop = 'old', while_waiting = 'cancel', pass_on_retry = false}

local function over(rule, other)
  local result = {}
  for _, name in ipairs(RULE) do
    if rule[name] ~= nil then
      result[name] = rule[name]
    else
      result[name] = other[name]
    end
  end
  return result
end

sessions.over = over

function sessions.is_idle(book)
  return #book.admitted == 0 and book.held == 0 and #book.outside == 0 and #book.windows == 0
end

-- The values of a rule are resolved when they are read: most callers need one or none.
local Rule = {__index = function(rule, name)
  local value = rule.ruled_[name]
  if value == nil then
    value = rule.given_[name]
  end
  if value == nil then
    value = DEFAULT_RULE[name]
  end
  return value
end}

-- Resolve the rule: what an operator has set, else what the last message gave, else the default.
function sessions.judge(book)
  book.rule = setmetatable({ruled_ = book.ruled, given_ = book.given}, Rule)
end

local any_ruled  -- operators have set something for some session

base.at_begin(function()
  any_ruled = nil
end)

local function make(name)
  if any_ruled == nil then
    any_ruled = call('EXISTS', PREFIX .. 'session_rules', PREFIX .. 'paused_sessions') > 0
  end
  local ruled, paused = {}, false
  if any_ruled then
    local text = call('HGET', PREFIX .. 'session_rules', name)
    ruled = text and unpacked(text) or {}
    paused = call('SISMEMBER', PREFIX .. 'paused_sessions', name) == 1
  end
  local book = {
    admitted = {},  -- runs that hold a place, by admission
    unstarted = 0,  -- the one of them that has not started, if any
    held = 0,
    back = 0,  -- of the held runs, the ones that were started before: they are the first
    joined = 0,  -- the last place given
    front = 0,  -- the first place given to a run that came back
    outside = {},  -- runs that were started and stepped out
    asking = {},  -- of all these, the runs that wait for an answer
    windows = {},  -- {task, user, number, until}
    given = {},  -- by messages
    ruled = ruled,  -- by an operator
    throttled = false,
    paused = paused,
    alone = false,  -- the next run must wait until none is admitted: it interrupted them
  }
  sessions.judge(book)
  return book
end

local function write(book)
  if sessions.is_idle(book) then
    return nil
  end
  return {
    book.admitted, book.unstarted, book.held, book.back, book.joined, book.front, book.outside, book.asking,
    book.windows, book.given, book.ruled, book.throttled, book.paused, book.alone,
  }
end

local function read(packed)
  local book = {
    admitted = packed[1], unstarted = packed[2], held = packed[3], back = packed[4], joined = packed[5],
    front = packed[6], outside = packed[7], asking = packed[8], windows = packed[9], given = packed[10],
    ruled = packed[11], throttled = packed[12], paused = packed[13], alone = packed[14],
  }
  sessions.judge(book)
  return book
end

local kept_sessions = cached_hash.at('sessions', make, write, read)

-- Return the book of a session, a new one if it is idle.
function sessions.get(name)
  return kept_sessions:get(name)
end

-- Read the books of several sessions in one command.
function sessions.load(names)
  kept_sessions:load(names)
end

-- Return the book of a session that is not idle, else nil.
function sessions.find(name)
  return kept_sessions:find(name)
end

function sessions.put(name, book)
  kept_sessions:put(name, book)
end

-- Delete the book of a session that is idle.
function sessions.empty_if_idle(name, book)
  if sessions.is_idle(book) then
    kept_sessions:drop(name)
  end
end

function sessions.limit(book)
  return book.throttled and 1 or book.rule.max_concurrent or 1
end

-- Return how many runs have joined and were never started.
function sessions.queued(book)
  return book.held - book.back + (book.unstarted > 0 and 1 or 0)
end

-- Return the runs that were started and have not ended: those that stepped out, then the others by admission.
function sessions.active(book)
  local active = {unpack(book.outside)}
  for _, number in ipairs(book.admitted) do
    if number ~= book.unstarted then
      active[#active + 1] = number
    end
  end
  return active
end

-- Set the rule that an operator gives.
function sessions.rule(book, ruled)
  book.ruled = ruled
  sessions.judge(book)
end

-- Apply what a message says about the session; what it does not mention stays.
function sessions.take(book, arrival)
  if arrival.throttled ~= nil then
    book.throttled = arrival.throttled
  end
  book.given = over(arrival.rule or {}, book.given)
  sessions.judge(book)
end

-- Return whether the next run in order may be admitted now.
function sessions.admits(book)
  local admitted = #book.admitted
  if book.paused or (admitted > 0 and (book.alone or admitted >= sessions.limit(book))) then
    return false
  end
  return book.back > 0 or book.unstarted == 0
end

function sessions.place(book)
  book.held = book.held + 1
  book.joined = book.joined + 1
  return book.joined
end

function sessions.place_at_head(book)
  book.held = book.held + 1
  return 0
end

function sessions.place_in_front(book)
  book.held = book.held + 1
  book.back = book.back + 1
  book.front = book.front - 1
  return book.front
end

local function begin(book, number)
  book.unstarted, book.alone = number, false
end

function sessions.admit(book, number)
  book.admitted[#book.admitted + 1] = number
  begin(book, number)
end

-- Count a held run as admitted: one that had stepped out (`again`), or one that has not started.
function sessions.call_in(book, number, again)
  book.held = book.held - 1
  book.admitted[#book.admitted + 1] = number
  if again then
    book.back = book.back - 1
    base.remove_from(book.outside, number)
  else
    begin(book, number)
  end
end

function sessions.step_out(book, number)
  base.remove_from(book.admitted, number)
  table.insert(book.outside, number)
end

function sessions.leave(book, back)
  book.held = book.held - 1
  book.back = book.back - (back and 1 or 0)
end

-- Count a run as ended, whether it holds a place or not.
function sessions.ended(book, number)
  if not base.remove_from(book.admitted, number) then
    base.remove_from(book.outside, number)
  end
  if number == book.unstarted then
    book.unstarted = 0
  end
  base.remove_from(book.asking, number)
end

function sessions.stop_asking(book, number)
  base.remove_from(book.asking, number)
end

-- Return the open window for messages of this task and user, if there is one.
function sessions.window(book, task, user)
  for _, window in ipairs(book.windows) do
    if window[1] == task and window[2] == (user or false) then
      return window
    end
  end
  return nil
end

-- Close the window of a run that is due or gone.
function sessions.close(book, number)
  for at = #book.windows, 1, -1 do
    if book.windows[at][3] == number then
      table.remove(book.windows, at)
    end
  end
end
