-- needs: runtime/base, state/rosters
-- Admission to a session: an ordered series of runs, at most `max_concurrent` of them active. This restates
-- core/sessions.py, where the rules are explained; names are the same.

local sessions = rosters  -- which has their books
local own_list, over = sessions.own_list, sessions.over

local function remove(book, name, number)
  local at = base.index_of(book[name], number)
  if at then
    table.remove(own_list(book, name), at)
  end
  return at ~= nil
end

-- Return the run that is admitted and has not started, 0 if there is none. A start that lets nobody in is not written to
-- the book (claiming.lua), so its record tells.
function sessions.unstarted(book)
  local number = book.unstarted_then
  if number > 0 and sessions.has_started(number) then
    book.unstarted_then, number = 0, 0
  end
  return number
end

-- Let the start of the run that is admitted be looked at, if that may let in others now.
local function look_at_start(book)
  if book.unstarted_then > 0 and sessions.limit(book) > 1 then
    sessions.expect_start(book.unstarted_then)
  end
end

-- How many runs have joined and were never started.
function sessions.queued(book)
  return book.held - book.back + (sessions.unstarted(book) > 0 and 1 or 0)
end

-- The same without a look at who has started: at most one more.
function sessions.queued_at_most(book)
  return book.held - book.back + (book.unstarted_then > 0 and 1 or 0)
end

-- The runs that were started and have not ended: those that stepped out, then by admission.
function sessions.active(book)
  local active, unstarted = {}, sessions.unstarted(book)
  for _, number in ipairs(book.outside) do
    active[#active + 1] = number
  end
  for _, number in ipairs(book.admitted) do
    if number ~= unstarted then
      active[#active + 1] = number
    end
  end
  return active
end

-- Lower the session to one run at a time, or not any more.
function sessions.throttle(book, throttled)
  book.throttled = throttled
  look_at_start(book)
end

-- Set what an operator says of the session.
function sessions.rule(book, ruled)
  book.ruled = ruled
  sessions.judge(book)
  look_at_start(book)
end

-- Take note of what a message says of the session; what it does not say stays.
function sessions.take(book, arrival)
  if arrival.throttled ~= nil and arrival.throttled ~= book.throttled then
    sessions.throttle(book, arrival.throttled)
  end
  for name, value in pairs(arrival.rule or {}) do
    if book.given[name] ~= value then
      book.given = over(arrival.rule, book.given)
      sessions.judge(book)
      look_at_start(book)
      return
    end
  end
end

-- Tell whether the next in order may be admitted now.
function sessions.admits(book)
  local admitted = #book.admitted
  if book.paused or (admitted > 0 and (book.alone or admitted >= sessions.limit(book))) then
    return false
  end
  return book.back > 0 or sessions.unstarted(book) == 0
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
  book.unstarted_then = number
  if book.alone then
    book.alone = false
  end
end

function sessions.admit(book, number)
  book.admitted[#book.admitted + 1] = number
  begin(book, number)
end

-- Count a held run as admitted: one that stepped out (`again`), or one that has not started.
function sessions.call_in(book, number, again)
  book.held = book.held - 1
  book.admitted[#book.admitted + 1] = number
  if again then
    book.back = book.back - 1
    remove(book, 'outside', number)
  else
    begin(book, number)
  end
end

function sessions.step_out(book, number)
  base.remove_from(book.admitted, number)
  table.insert(own_list(book, 'outside'), number)
end

function sessions.leave(book, back)
  book.held = book.held - 1
  book.back = book.back - (back and 1 or 0)
end

-- Count a run as ended, whether it holds a place or not.
function sessions.ended(book, number)
  local admitted = book.admitted
  if admitted[1] == number and #admitted == 1 then
    admitted[1] = nil
  elseif not base.remove_from(admitted, number) then
    remove(book, 'outside', number)
  end
  if number == book.unstarted_then then
    book.unstarted_then = 0
  end
  remove(book, 'asking', number)
end

function sessions.hear(book, number)
  remove(book, 'asking', number)
end

-- Return the window that takes messages of this task and user, if one is open.
function sessions.window(book, task, user)
  for _, window in ipairs(book.windows) do
    if window[1] == task and window[2] == (user or false) then
      return window
    end
  end
  return nil
end

-- Forget the window of a run that is due, or gone.
function sessions.close(book, number)
  for at = #book.windows, 1, -1 do
    if book.windows[at][3] == number then
      table.remove(own_list(book, 'windows'), at)
    end
  end
end
