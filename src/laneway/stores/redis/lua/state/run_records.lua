-- needs: runtime/base
-- The records of runs: what is kept of each, as text and as a table. Its rank is the score in the sorted set it stands in.
--
-- Hash `runs`: number -> a packed array in three parts, of what changes together; codec/decode.py has the same.
--
--   its state    state, kind, shelf, fence, attempt, crashes, started_at, ended_at, worker, holder, seq, log, rare
--   whose it is  task, lane, user, session, priority: never change
--   its own      id, accepted_at, due_at, and at the end (its `tail`) arguments and result, JSON texts
--
-- Before them stand the lengths of the first two, so that a part can be compared or replaced without a look at the
-- others: many runs have the same state, and what a batch is moved by is one state text in place of another.
-- What most runs never have stands in one table at the end of the state (`rare`), by name; what is missing is nil.
-- Beside it, as JSON text by number: hashes `ties`, `failures`, `saved` (checkpoints), `prepared`, and `args` and
-- `results` for those that are too long to be moved with every change; their place in the record is false.

local run_records = {}

local RARE = {
  'request',  -- what was asked of it while it is running or waiting: cancel, pause
  'reason',  -- why it ended as it did, or that it is on its last chance
  'lapsed',  -- its lease is one of the dead: `holder` settles it, `worker` executed it
  'timed_out',  -- it was overdue
  'call',  -- the newest call that changed it from outside
  'messages',  -- how many it took
  'merged', 'steered', 'answered',  -- of these, by kind; those that steered are its inbox
  'read',  -- of its inbox, by the newest attempt that ended
  'cleared',  -- what is unread in its inbox when it ends is dropped
  'keyed',  -- the fields of hash `keys` that stand for it
  'arrival',  -- what it says of its session when it joins it, if that is later
  'retry_of',  -- the id of the run that it tries again
  'ties',  -- what rules need of its ties: `parent`, `call`, `tries`, `about`, `job` (its id), `by_hand`, `overlap`,
           -- `follows` (it has `then` or `on_failure`), `session` (one that it names and has no place in)
  'wait',  -- what it waits for, or waited for last: `questions` {name, question, timeout, about, until}, `calls`
           -- {name, run_id, about, tries}, `others` ids
  'memos', 'memoed',  -- how many it has kept, and how many it has ever written
  'saved', 'prepared', 'failed',  -- there is a text of it in the hash of that name
  'streamed',  -- there are deltas in its log
  'spilled',  -- its log is in a stream of its own
}

-- Assigning what most runs never have marks a run: what is not marked need not be looked through.
local Run = {__newindex = function(run, name, value)
  if value ~= nil then
    rawset(run, name, value)
    rawset(run, 'marked', true)
  end
end}

local function rare_of(run)
  local rare
  for i = 1, #RARE do
    local value = run[RARE[i]]
    if value then
      rare = rare or {}
      rare[RARE[i]] = value
    end
  end
  return rare or false
end

local INLINE = 1000  -- bytes of arguments or of a result that stand in the record
local short, shorts = {[false] = pack(false)}, 0  -- what values are packed as: most runs have the same ones
local states, leads, known = {}, {}, 0  -- what states say, by text; what stands before them, by length
local whoses, owners = {}, 0  -- what texts say of whose runs are
local MOST_KEPT = 1000  -- of each of these, before they are forgotten: instants never come again

base.at_begin(function()
  if shorts > MOST_KEPT then
    short, shorts = {[false] = pack(false)}, 0
  end
  if known > MOST_KEPT then
    states, leads, known = {}, {}, 0
  end
  if owners > MOST_KEPT then
    whoses, owners = {}, 0
  end
end)

local function packed(value)
  local text = short[value]
  if not text then
    text = pack(value)
    short[value], shorts = text, shorts + 1
  end
  return text
end

local function packed_log(log)
  local count = #log
  if count == 0 then
    return '\144'
  elseif count == 2 then
    return '\146' .. packed(log[1]) .. packed(log[2])
  elseif count == 4 then
    return '\148' .. packed(log[1]) .. packed(log[2]) .. packed(log[3]) .. packed(log[4])
  end
  return pack(log)
end

-- Return the first part of a record of the run.
function run_records.state_text(run)
  local state, kind, shelf, fence = run.state, run.kind, run.shelf, run.fence
  local attempt, crashes, seq = run.attempt, run.crashes, run.seq
  local started_at, ended_at, worker, holder = run.started_at, run.ended_at, run.worker or false, run.holder or false
  return (short[state] or packed(state)) .. (short[kind] or packed(kind)) .. (short[shelf] or packed(shelf))
    .. (short[fence] or packed(fence)) .. (short[attempt] or packed(attempt)) .. (short[crashes] or packed(crashes))
    .. (short[started_at] or packed(started_at)) .. (short[ended_at] or packed(ended_at))
    .. (short[worker] or packed(worker)) .. (short[holder] or packed(holder)) .. (short[seq] or packed(seq))
    .. packed_log(run.log) .. (run.marked and pack(rare_of(run)) or short[false])
end

-- The lengths ---------------------------------------------------------------------------------------------------------

local FIRST = 13  -- bytes before the first part

local function size(length)
  return char(0xce, 0, math.floor(length / 65536) % 256, math.floor(length / 256) % 256, length % 256)
end

-- Return what stands before parts of these lengths: how many bytes are before the last one, and before the second.
local function lead(state, whose)
  local key = state * 16777216 + whose
  local text = leads[key]
  if not text then
    text = char(0xdc, 0, 25) .. size(FIRST + state + whose) .. size(FIRST + state)
    leads[key], known = text, known + 1
  end
  return text
end

local function first_two(text)
  local a, b, c, _, _, d, e, f = byte(text, 6, 13)
  local second, first = a * 65536 + b * 256 + c, d * 65536 + e * 256 + f
  return sub(text, FIRST + 1, first), sub(text, first + 1, second), second
end

-- Parts ---------------------------------------------------------------------------------------------------------------

-- Return what a state text says. One table for all runs that have it, so it must not be changed.
function run_records.state_of(text)
  local found = states[text]
  if not found then
    local _, state, kind, shelf, fence, attempt, crashes, started_at, ended_at, worker, holder, seq, log, rare =
      unpack_limit(text, 13)
    found = {
      state = state, kind = kind, shelf = shelf, fence = fence, attempt = attempt, crashes = crashes,
      started_at = started_at, ended_at = ended_at, worker = worker, holder = holder, seq = seq, log = log,
      rare = rare, size = #text,
    }
    if not rare then  -- the tables in it are its run's own
      states[text], known = found, known + 1
    end
  end
  return found
end

-- Return a run of which nothing is known but its state, to be changed.
function run_records.alone(is)
  local run = {}
  for name, value in pairs(is) do
    run[name] = value
  end
  run.log = {unpack(is.log)}
  return setmetatable(run, Run)
end

-- Return what a text says of whose a run is; as above.
function run_records.whose_of(text)
  local found = whoses[text]
  if not found then
    local _, task, lane, user, session, priority = unpack_limit(text, 5)
    found = {task = task, lane = lane, user = user, session = session, priority = priority, size = #text}
    whoses[text], owners = found, owners + 1
  end
  return found
end

-- Return what stands before the last part of a record.
function run_records.front(state, whose)
  return lead(#state, #whose) .. state .. whose
end

local function whose_text(task, lane, user, session, priority)
  return packed(task) .. packed(lane) .. packed(user) .. packed(session) .. packed(priority)
end

-- The last part -------------------------------------------------------------------------------------------------------

-- Tell whether a text is too long to stand in the record.
function run_records.is_long(text)
  return #text > INLINE
end

-- Return the tail of a run that has no result; arguments that are too long are left out, unless `whole`.
function run_records.tail(args, whole)
  return (whole or #args <= INLINE) and pack(args) .. '\194' or '\194\194'
end

-- Return a tail, or a record, with a result, if there is one: there was none, which is one byte.
function run_records.with_result(tail, value)
  return value and sub(tail, 1, -2) .. pack(value) or tail
end

-- Tell of a tail, or a record, whether the arguments are kept elsewhere. They are an object, so they end with a brace.
function run_records.has_no_args(tail)
  return byte(tail, -2) == 0xc2
end

-- Return the last part, with another tail.
function run_records.last(run, tail)
  return pack(run.id) .. packed(run.accepted_at) .. packed(run.due_at) .. tail
end

-- Whole records -------------------------------------------------------------------------------------------------------

-- A run that was read knows what its state says it is, and whose it is: who moves runs asks for no more. The
-- rest is read when somebody asks for it, or sets it.
local Glance = {}

local function fill(run)
  local text, is = run.text, run.is
  local at, id, accepted_at, due_at = unpack_limit(text, 3, run.own - 1)
  setmetatable(run, nil)
  run.text, run.is, run.own = nil, nil, nil
  run.id, run.accepted_at, run.due_at, run.tail = id, accepted_at, due_at, sub(text, at + 1)
  run.fence, run.attempt, run.crashes, run.seq = is.fence, is.attempt, is.crashes, is.seq
  run.started_at, run.ended_at, run.worker, run.holder = is.started_at, is.ended_at, is.worker, is.holder
  run.log = {unpack(is.log)}
  setmetatable(run, Run)
  for name, value in pairs(is.rare or {}) do
    run[name] = value
  end
end

function Glance.__index(run, name)
  fill(run)
  return run[name]
end

function Glance.__newindex(run, name, value)
  fill(run)
  run[name] = value
end

function run_records.read(text, field)
  local state, whose, second = first_two(text)
  local is, of = run_records.state_of(state), run_records.whose_of(whose)
  return setmetatable({
    number = tonumber(field), task = of.task, lane = of.lane, user = of.user, session = of.session,
    priority = of.priority, whose = whose, state = is.state, kind = is.kind, shelf = is.shelf, is = is,
    text = text, own = second + 1,
  }, Glance)
end

-- Return the state text of one that is moved to another shelf, or comes there as another kind.
local function moved_text(is, kind, shelf)
  local by_shelf = is.moved
  if not by_shelf then
    by_shelf = {}
    is.moved = by_shelf
  end
  local by_kind = by_shelf[shelf]
  if not by_kind then
    by_kind = {}
    by_shelf[shelf] = by_kind
  end
  if not by_kind[kind] then
    by_kind[kind] = run_records.state_text(setmetatable({kind = kind, shelf = shelf}, {__index = is}))
  end
  return by_kind[kind]
end

-- Return what a record says of its run's state, and whose it is.
function run_records.look(text)
  local state, whose = first_two(text)
  return run_records.state_of(state), run_records.whose_of(whose)
end

-- Return a record with another state text in place of its own; `is` and `of` are what it says.
function run_records.with_state(text, is, of, state)
  return lead(#state, of.size) .. state .. sub(text, FIRST + 1 + is.size)
end

-- Return what stands in a record behind its state, and has no result yet.
function run_records.behind_state(text, is)
  return sub(text, FIRST + 1 + is.size)
end

-- Return the record of a run that has nothing rare and is moved to that shelf, as that kind.
function run_records.moved(text, is, of, shelf, kind)
  return run_records.with_state(text, is, of, moved_text(is, kind, shelf))
end

function run_records.write(run)
  local is = run.is
  if is and run.state == is.state then
    if run.kind == is.kind and run.shelf == is.shelf then
      return run.text
    elseif not is.rare then
      return run_records.front(moved_text(is, run.kind, run.shelf), run.whose) .. sub(run.text, run.own)
    end
  end
  local tail = run.tail  -- which fills it
  return run_records.front(run_records.state_text(run), run.whose) .. run_records.last(run, tail)
end

-- Return a run that was never written, on no shelf.
function run_records.new(number, new, lane, due_at)
  local user, session = new.user or false, new.session or false
  local whose = whose_text(new.task, lane, user, session, new.priority)
  local run = setmetatable({
    number = number, id = new.id, whose = whose, tail = run_records.tail(new.args),
    task = new.task, lane = lane, user = user, session = session, priority = new.priority,
    state = 'pending', kind = 0, shelf = false, fence = 0, attempt = 1, crashes = 0,
    started_at = false, ended_at = false, worker = false, holder = false, seq = 0,
    log = {}, accepted_at = NOW, due_at = due_at,
  }, Run)
  run.retry_of, run.ties = new.retry_of, new.ties
  return run
end

-- Return what stands, in records of runs that are new, plain and in the ready order of their lane, before the id, and
-- behind it.
function run_records.fresh(task, lane)
  local whose, now = whose_text(task, lane, false, false, 0), packed(NOW)
  local state = run_records.state_text({
    state = 'pending', kind = 0, shelf = 'ready', fence = 0, attempt = 1, crashes = 0, started_at = false,
    ended_at = false, seq = 0, log = {},
  })
  return run_records.front(state, whose), now .. now
end
