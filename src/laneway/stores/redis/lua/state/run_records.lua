-- needs: runtime/base
-- The records of runs, as text and as tables. A run's rank is not in its record: it is the score in its sorted set.
--
-- Hash `runs`: number -> a packed array in three parts of what changes together; codec/decode.py reads the same.
--
--   status  state, kind, shelf, fence, attempt, crashes, started_at, ended_at, worker, holder, seq, log, rare
--   labels  task, lane, user, session, priority: never change
--   body    id, accepted_at, due_at, and at its end (the `tail`) arguments and result, JSON texts
--
-- Before them stand the lengths of the first two, so that a script can compare or replace one part without parsing the
-- others. Many runs of a batch have the same status and the same labels, byte for byte: each is parsed once, and a
-- batch is moved by putting one status text in place of another.
--
-- Fields that most runs never have stand in one table at the end of the status (`rare`), by name; a missing one is nil.
-- Beside the record, as JSON text by number: hashes `ties`, `failures`, `saved` (checkpoints), `prepared`, and `args`
-- and `results` for those too long to be copied with every change; their place in the record is false.

local run_records = {}

-- Those that a move brings over as they are.
run_records.MOVED = {
  'request',  -- what was requested of it while it is running or waiting: cancel, pause
  'reason',  -- why it ended as it did, or that it is on its last chance
  'call',  -- the newest call that changed it from outside
  'read',  -- how much of its inbox the newest attempt that ended has read
  'arrival',  -- its session policy, until it joins the session
  'retry_of',  -- the id of the run that it tries again
  'wait',  -- what it waits for, or waited for last: `questions` {name, question, timeout, about, until}, `calls`
           -- {name, run_id, about, tries}, `others` ids
  'streamed',  -- its log has deltas
}
local RARE = {
  'lapsed',  -- its worker died: `holder` settles it, `worker` executed it
  'timed_out',  -- it was overdue
  'messages',  -- how many messages it took
  'merged', 'steered', 'answered',  -- of these, by kind; the steered ones are its inbox
  'cleared',  -- messages that are unread when it ends are dropped
  'keyed',  -- the fields of hash `keys` that stand for it
  'ties',  -- what rules need of its ties: `parent`, `call`, `tries`, `about`, `job` (its id), `by_hand`, `overlap`,
           -- `follows` (it has `then` or `on_failure`), `session` (one that it names without joining it)
  'memos', 'memoed',  -- how many memos it has, and how many it has ever written
  'saved', 'prepared', 'failed',  -- the hash of that name has a text of it
  'spilled',  -- its log is in a stream of its own
}
for _, name in ipairs(run_records.MOVED) do
  RARE[#RARE + 1] = name
end

-- Setting a rare field marks a run: of an unmarked one the rare fields need not be looked through.
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

local INLINE = 1000  -- the longest arguments or result that stand in the record, in bytes
local MOST_CACHED = 1000  -- entries of each cache below, before it is dropped: instants never come again
local short, short_count = {[false] = pack(false)}, 0  -- packed values
local statuses, leads, status_count = {}, {}, 0  -- parsed statuses by text; leads by lengths
local all_labels, labels_count = {}, 0  -- parsed labels by text

base.at_begin(function()
  if short_count > MOST_CACHED then
    short, short_count = {[false] = pack(false)}, 0
  end
  if status_count > MOST_CACHED then
    statuses, leads, status_count = {}, {}, 0
  end
  if labels_count > MOST_CACHED then
    all_labels, labels_count = {}, 0
  end
end)

local function packed(value)
  local text = short[value]
  if not text then
    text = pack(value)
    short[value], short_count = text, short_count + 1
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

-- Return the text of a run's status.
function run_records.status_text(run)
  local state, kind, shelf, fence = run.state, run.kind, run.shelf, run.fence
  local attempt, crashes, seq = run.attempt, run.crashes, run.seq
  local started_at, ended_at, worker, holder = run.started_at, run.ended_at, run.worker or false, run.holder or false
  return (short[state] or packed(state)) .. (short[kind] or packed(kind)) .. (short[shelf] or packed(shelf))
    .. (short[fence] or packed(fence)) .. (short[attempt] or packed(attempt)) .. (short[crashes] or packed(crashes))
    .. (short[started_at] or packed(started_at)) .. (short[ended_at] or packed(ended_at))
    .. (short[worker] or packed(worker)) .. (short[holder] or packed(holder)) .. (short[seq] or packed(seq))
    .. packed_log(run.log) .. (run.marked and pack(rare_of(run)) or short[false])
end

-- Lengths ---------------------------------------------------------------------------------------------------------

local FIRST = 13  -- bytes before the status

local function size(length)
  return char(0xce, 0, math.floor(length / 65536) % 256, math.floor(length / 256) % 256, length % 256)
end

-- Return the lead of a record whose first two parts are this long: how many bytes are before the body, and before the
-- labels.
local function lead(status_size, labels_size)
  local key = status_size * 16777216 + labels_size
  local text = leads[key]
  if not text then
    text = char(0xdc, 0, 25) .. size(FIRST + status_size + labels_size) .. size(FIRST + status_size)
    leads[key], status_count = text, status_count + 1
  end
  return text
end

-- Return the texts of status and labels, and how many bytes are before the body.
local function first_two(text)
  local a, b, c, _, _, d, e, f = byte(text, 6, 13)
  local before_body, before_labels = a * 65536 + b * 256 + c, d * 65536 + e * 256 + f
  return sub(text, FIRST + 1, before_labels), sub(text, before_labels + 1, before_body), before_body
end

-- Parts -----------------------------------------------------------------------------------------------------------

-- Return a status as a table. All runs with this text share it, so it must not be changed.
function run_records.status_of(text)
  local found = statuses[text]
  if not found then
    local _, state, kind, shelf, fence, attempt, crashes, started_at, ended_at, worker, holder, seq, log, rare =
      unpack_limit(text, 13)
    found = {
      state = state, kind = kind, shelf = shelf, fence = fence, attempt = attempt, crashes = crashes,
      started_at = started_at, ended_at = ended_at, worker = worker, holder = holder, seq = seq, log = log,
      rare = rare, size = #text,
    }
    if not rare then  -- the tables in it belong to one run
      statuses[text], status_count = found, status_count + 1
    end
  end
  return found
end

-- Return a run that has this status and nothing else, to be changed.
function run_records.with_status(status)
  local run = {}
  for name, value in pairs(status) do
    run[name] = value
  end
  run.log = {unpack(status.log)}
  return setmetatable(run, Run)
end

-- Return labels as a table; shared as above.
function run_records.labels_of(text)
  local found = all_labels[text]
  if not found then
    local _, task, lane, user, session, priority = unpack_limit(text, 5)
    found = {task = task, lane = lane, user = user, session = session, priority = priority, size = #text}
    all_labels[text], labels_count = found, labels_count + 1
  end
  return found
end

local function labels_text(task, lane, user, session, priority)
  return packed(task) .. packed(lane) .. packed(user) .. packed(session) .. packed(priority)
end

-- Return the front of a record, which is all but its body, of the texts of status and labels.
function run_records.front(status, labels)
  return lead(#status, #labels) .. status .. labels
end

-- The body --------------------------------------------------------------------------------------------------------

-- Return whether a text is too long to stand in the record.
function run_records.is_long(text)
  return #text > INLINE
end

-- Return the tail of a run without a result. Arguments that are too long are left out, unless `whole`.
function run_records.tail(args, whole)
  return (whole or #args <= INLINE) and pack(args) .. '\194' or '\194\194'
end

-- Return a tail or a whole record with its result; before it, there stands one byte for none.
function run_records.with_result(tail, value)
  return value and sub(tail, 1, -2) .. pack(value) or tail
end

-- Return whether a tail or a record without a result leaves its arguments out. They are an object, so their last byte
-- is a brace.
function run_records.has_no_args(tail)
  return byte(tail, -2) == 0xc2
end

-- Return the body of a run, with this tail.
function run_records.body(run, tail)
  return pack(run.id) .. packed(run.accepted_at) .. packed(run.due_at) .. tail
end

-- Whole records ---------------------------------------------------------------------------------------------------

-- A run that was read has its labels, state, kind and shelf; callers that move runs need no more. Reading or setting
-- anything else parses the rest.
local LazyRun = {}

local function parse_rest(run)
  local text, status = run.text, run.status
  local at, id, accepted_at, due_at = unpack_limit(text, 3, run.body_at - 1)
  setmetatable(run, nil)
  run.text, run.status, run.body_at = nil, nil, nil
  run.id, run.accepted_at, run.due_at, run.tail = id, accepted_at, due_at, sub(text, at + 1)
  run.fence, run.attempt, run.crashes, run.seq = status.fence, status.attempt, status.crashes, status.seq
  run.started_at, run.ended_at, run.worker, run.holder =
    status.started_at, status.ended_at, status.worker, status.holder
  run.log = {unpack(status.log)}
  setmetatable(run, Run)
  for name, value in pairs(status.rare or {}) do
    run[name] = value
  end
end

function LazyRun.__index(run, name)
  parse_rest(run)
  return run[name]
end

function LazyRun.__newindex(run, name, value)
  parse_rest(run)
  run[name] = value
end

-- Return the run of a record.
function run_records.read(text, field)
  local status_text, labels_text, before_body = first_two(text)
  local status, labels = run_records.status_of(status_text), run_records.labels_of(labels_text)
  return setmetatable({
    number = tonumber(field), task = labels.task, lane = labels.lane, user = labels.user, session = labels.session,
    priority = labels.priority, labels = labels_text, state = status.state, kind = status.kind, shelf = status.shelf,
    status = status, text = text, body_at = before_body + 1,
  }, LazyRun)
end

-- Return status and labels of a record.
function run_records.peek(text)
  local status, labels = first_two(text)
  return run_records.status_of(status), run_records.labels_of(labels)
end

-- Return the status text of runs with this status once they are on another shelf, or of another kind.
local function moved_text(status, kind, shelf)
  local by_shelf = status.moved
  if not by_shelf then
    by_shelf = {}
    status.moved = by_shelf
  end
  local by_kind = by_shelf[shelf]
  if not by_kind then
    by_kind = {}
    by_shelf[shelf] = by_kind
  end
  if not by_kind[kind] then
    by_kind[kind] = run_records.status_text(setmetatable({kind = kind, shelf = shelf}, {__index = status}))
  end
  return by_kind[kind]
end

-- Return all that stands behind the status in a record: labels and body.
function run_records.behind_status(text, status)
  return sub(text, FIRST + 1 + status.size)
end

-- Return the record of a status text, and of what stands behind it.
function run_records.joined(status_text, labels, behind)
  return lead(#status_text, labels.size) .. status_text .. behind
end

-- Return a record with another status text and, if it is given, a result; `status` and `labels` are its own.
function run_records.ended(text, status, labels, status_text, value)
  if not value then
    return run_records.joined(status_text, labels, run_records.behind_status(text, status))
  end
  return lead(#status_text, labels.size) .. status_text .. sub(text, FIRST + 1 + status.size, -2) .. pack(value)
end

-- Return the record of a run without rare fields once it is on that shelf, of that kind.
function run_records.moved(text, status, labels, shelf, kind)
  return run_records.joined(moved_text(status, kind, shelf), labels, run_records.behind_status(text, status))
end

-- Return the record of a run.
function run_records.write(run)
  local status = run.status
  if status and run.state == status.state then
    if run.kind == status.kind and run.shelf == status.shelf then
      return run.text
    elseif not status.rare then
      return run_records.front(moved_text(status, run.kind, run.shelf), run.labels) .. sub(run.text, run.body_at)
    end
  end
  local tail = run.tail  -- this parses the rest
  return run_records.front(run_records.status_text(run), run.labels) .. run_records.body(run, tail)
end

-- Return a new run, on no shelf.
function run_records.new(number, new, lane, due_at)
  local user, session = new.user or false, new.session or false
  local labels = labels_text(new.task, lane, user, session, new.priority)
  local run = setmetatable({
    number = number, id = new.id, labels = labels, tail = run_records.tail(new.args),
    task = new.task, lane = lane, user = user, session = session, priority = new.priority,
    state = 'pending', kind = 0, shelf = false, fence = 0, attempt = 1, crashes = 0,
    started_at = false, ended_at = false, worker = false, holder = false, seq = 0,
    log = {}, accepted_at = NOW, due_at = due_at,
  }, Run)
  run.retry_of, run.ties = new.retry_of, new.ties
  return run
end

-- Return what stands before and behind the id in records of new plain runs in the ready order of their lane.
function run_records.fresh(task, lane)
  local labels, now = labels_text(task, lane, false, false, 0), packed(NOW)
  local status = run_records.status_text({
    state = 'pending', kind = 0, shelf = 'ready', fence = 0, attempt = 1, crashes = 0, started_at = false,
    ended_at = false, seq = 0, log = {},
  })
  return run_records.front(status, labels), now .. now
end
