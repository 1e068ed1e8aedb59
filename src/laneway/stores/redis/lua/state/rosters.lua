-- needs: runtime/base, runtime/cached_hash, state/records
-- gives: rosters, kept_sessions
-- The books of sessions, and how they are kept. sessions.lua has the rules, in the same table.
--
-- Hash `sessions`: name -> its book, while it is not idle. What operators have set is kept apart, also of idle ones:
-- hash `session_rules` (packed rules) and set `paused_sessions`.
-- A rule is a table of what is given: max_concurrent, cap, drop, while_waiting, pass_on_retry.

local rosters = {}

local NOBODY = pack(false)
rosters.NOBODY = NOBODY
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

rosters.over = over

function rosters.is_idle(book)
  return #book.admitted == 0 and book.held == 0 and #book.outside == 0 and #book.windows == 0
end

-- A rule is worked out name by name, when it is asked: most who read a book want one or none.
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

-- Say what holds: what an operator set, else what a message gave last, else the default.
function rosters.judge(book)
  book.rule = setmetatable({ruled_ = book.ruled, given_ = book.given}, Rule)
end

local any_ruled  -- something is set of some session

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
    unstarted_then = 0,  -- the one of them that had not started when this was written, if any (`sessions.unstarted`)
    held = 0,
    back = 0,  -- of the held, those that were started before: they are the first
    joined = 0,  -- the last place given
    front = 0,  -- the first place given to one that came back
    heads = '', taken = 0,  -- the first of the held, as holding.lua has them; bytes of it that are of those held no more
    listed = 0,  -- how many of the held stand there; false if that was not asked
    held_of = NOBODY,  -- whose the held are (`records.key_of`), if all are the same's, pending, and were never started
    outside = {},  -- runs that were started and stepped out
    asking = {},  -- of all these, the ones that wait for an answer
    windows = {},  -- {task, user, number, until}
    given = {},  -- by messages
    ruled = ruled,  -- by an operator
    throttled = false,
    paused = paused,
    alone = false,  -- the next must wait until nothing is admitted: it interrupted them
    was = false,
  }
  rosters.judge(book)
  return book
end

-- What seldom changes of a book stands behind what changes all the time, and is the same text of many sessions: it is
-- read once for all of them, and must not be changed in place (`own_list`). Assigning any of it makes a book forget the
-- text (`rest`). So the text of all behind what the end of a run changes is kept, too (`tail`), until somebody asks for
-- the book to change more. As long as it is, `quick` tells whether all that the end of the one admitted run does is to
-- let in the next of those that are held, which stands in the book (holding.lua), and whose they are.
local rests, rests_kept = {}, 0  -- by text: the metatable of books that have it
local MOST_RESTS = 100

base.at_begin(function()
  if rests_kept > MOST_RESTS then
    rests, rests_kept = {}, 0
  end
end)

local function set(book, name, value)
  rawset(book, name, value)
  rawset(book, 'rest', nil)
  rawset(book, 'simple', false)
end

local function rest_of(text)
  local found = rests[text]
  if not found then
    local _, outside, asking, windows, given, ruled, throttled, paused, alone = unpack_limit(text, 8)
    local view = {
      outside = outside, asking = asking, windows = windows, given = given, ruled = ruled, throttled = throttled,
      paused = paused, alone = alone,
    }
    rosters.judge(view)
    view.most = rosters.limit(view)
    view.simple = #outside == 0 and #asking == 0 and #windows == 0 and not paused and not alone and view.most == 1
    found = {__index = view, __newindex = set}
    rests[text], rests_kept = found, rests_kept + 1
  end
  return found
end

local ints, text_heads = records.ints, records.heads

local function write(book)
  local admitted, unstarted, tail = book.admitted, book.unstarted_then, book.tail
  local first = admitted[1]
  if tail and first == unstarted and not admitted[2] and first then  -- as below
    local number = pack(first)
    return '\220\0\17\145' .. number .. number .. ints[book.held] .. ints[book.taken] .. tail
  end
  local rest = book.rest
  if not first and rosters.is_idle(book) then
    return nil
  end
  if not rest then
    book.own = true
    return pack({
      admitted, unstarted, book.held, book.taken, book.back, book.joined, book.front, book.heads,
      unpacked(book.held_of), book.outside, book.asking, book.windows, book.given, book.ruled, book.throttled,
      book.paused, book.alone,
    })
  end
  if not tail then
    local heads = book.heads
    tail = ints[book.back] .. ints[book.joined] .. ints[book.front] .. text_heads[#heads] .. heads .. book.held_of .. rest
    book.tail = tail
    book.quick = book.simple and book.back == 0 and not admitted[2] and heads ~= '' and book.held_of ~= NOBODY
  end
  if first and not admitted[2] and (unstarted == first or unstarted == 0) then
    local number = pack(first)
    return '\220\0\17\145' .. number .. (unstarted == 0 and '\0' or number) .. ints[book.held] .. ints[book.taken] .. tail
  end
  return '\220\0\17' .. pack(admitted, unstarted) .. ints[book.held] .. ints[book.taken] .. tail
end

-- A book that is `simple` has nothing but one run that is admitted, and those that are held.
local function read(text)
  local at, admitted, unstarted, held, taken, back, joined, front, heads, held_of = unpack_limit(text, 9, 3)
  local rest = sub(text, at + 1)
  local shared = rest_of(rest)
  return setmetatable({
    admitted = admitted, unstarted_then = unstarted, held = held, back = back, joined = joined, front = front,
    taken = taken, heads = heads, listed = false, held_of = pack(held_of), rest = rest, tail = false,
    simple = shared.__index.simple, quick = false, was = false,
  }, shared)
end

-- Return a list of a book, to be changed.
local function own_list(book, name)
  local list = rawget(book, name)
  if not list then
    list = {}
    for i, value in ipairs(book[name]) do
      list[i] = value
    end
    book[name] = list
  end
  return list
end

rosters.own_list = own_list

local kept_sessions = cached_hash.at('sessions', make)
kept_sessions.to_text, kept_sessions.of_text = write, read
kept_sessions:remember()

-- Return the book of a session, a new one if it is idle.
function rosters.get(name)
  local book = kept_sessions:get(name)
  book.tail, book.quick = false, false
  return book
end

-- Read the books of several at once, because they will be asked for; return all that were read, by name. Of these may be
-- changed who is admitted, how many are held and which of those in the book are not any more; for more, ask for one.
function rosters.load(names)
  kept_sessions:load(names)
  return kept_sessions.kept
end

-- Return the book of a session that is not idle, else nil.
function rosters.find(name)
  local book = kept_sessions:find(name)
  if book then
    book.tail, book.quick = false, false
  end
  return book
end

function rosters.put(name, book)
  kept_sessions:put(name, book)
end

-- Forget a session that is idle.
function rosters.empty_if_idle(name, book)
  if rosters.is_idle(book) then
    kept_sessions:drop(name)
  end
end

function rosters.limit(book)
  return book.rest and book.most or book.throttled and 1 or book.rule.max_concurrent or 1
end

-- Return the text of a book with all starts written, for who does not know of them.
function rosters.shown(text)
  local book = read(text)
  return book.unstarted_then > 0 and rosters.unstarted(book) == 0 and write(book) or text
end
