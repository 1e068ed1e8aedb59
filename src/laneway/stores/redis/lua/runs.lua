-- needs: base
-- gives: runs, TERMINAL, BESIDE
-- Runs: what is kept of each, by acceptance number.
--
-- Hash `runs`: number -> a packed array, the fields of which are written down in `write` below and in records.py. What
-- most runs never have stands in one table at its end, by name; what is missing there is nil.
-- Beside it, as JSON text by number: hashes `args`, `ties`, `results`, `failures`, `saved` (checkpoints), `prepared`.

local runs = {}

local RARE = {
  'request',  -- what was asked of it while it is running or waiting: cancel, pause
  'reason',  -- why it ended as it did
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

local HEADER = string.char(0xdc, 0, 22)  -- of a packed array of so many
local short, shorts = {[false] = pack(false)}, 0  -- what values are packed as: most runs have the same ones
local MOST_SHORT = 1000  -- of these, before they are forgotten: instants among them never come again

base.at_begin(function()
  if shorts > MOST_SHORT then
    short, shorts = {[false] = pack(false)}, 0
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
  if count == 2 then
    return '\146' .. packed(log[1]) .. packed(log[2])
  elseif count == 4 then
    return '\148' .. packed(log[1]) .. packed(log[2]) .. packed(log[3]) .. packed(log[4])
  end
  return pack(log)
end

-- What never changes of a run is the head of its record.
local function head_of(run)
  return pack(run.id) .. packed(run.task) .. packed(run.lane) .. packed(run.user or false)
    .. packed(run.session or false) .. packed(run.priority)
end

local function write(run)
  local state, kind, shelf, fence = run.state, run.kind, run.shelf, run.fence
  local attempt, crashes = run.attempt, run.crashes
  local due_at, started_at, ended_at, seq = run.due_at, run.started_at or false, run.ended_at or false, run.seq
  local worker, holder = run.worker or false, run.holder or false
  return HEADER .. (run.head or head_of(run))
    .. (short[state] or packed(state)) .. (short[kind] or packed(kind)) .. pack(run.rank)
    .. (short[shelf] or packed(shelf))
    .. (short[fence] or packed(fence)) .. (short[attempt] or packed(attempt)) .. (short[crashes] or packed(crashes))
    .. packed(run.accepted_at) .. (short[due_at] or packed(due_at))
    .. (short[started_at] or packed(started_at)) .. (short[ended_at] or packed(ended_at))
    .. (short[worker] or packed(worker)) .. (short[holder] or packed(holder))
    .. (short[seq] or packed(seq)) .. packed_log(run.log) .. (run.marked and pack(rare_of(run)) or short[false])
end

local function read(text, field)
  local values = cmsgpack.unpack_limit
  local at, id, task, lane, user, session, priority = values(text, 6, #HEADER)
  local _, state, kind, rank, shelf, fence, attempt, crashes, accepted_at, due_at, started_at, ended_at, worker, holder,
    seq, log, rare = values(text, 16, at)
  local run = setmetatable({
    number = tonumber(field), head = string.sub(text, #HEADER + 1, at),
    id = id, task = task, lane = lane, user = user, session = session, priority = priority,
    state = state, kind = kind, rank = rank, shelf = shelf,
    fence = fence, attempt = attempt, crashes = crashes,
    accepted_at = accepted_at, due_at = due_at, started_at = started_at, ended_at = ended_at,
    worker = worker, holder = holder, seq = seq, log = log,
  }, Run)
  if rare then
    for name, value in pairs(rare) do
      run[name] = value
    end
  end
  return run
end

local kept_runs = base.ledger('runs')
kept_runs.to_text, kept_runs.of_text = write, read

-- Terminal states, and how old runs are found again: sorted sets `ended:<state>` by when they ended.
local TERMINAL = {succeeded = true, failed = true, cancelled = true, dropped = true}

-- Runs in these states are on no shelf and under no lease: sets `paused_runs` and `waiting_runs` tell which they are.
local BESIDE = {paused = true, waiting = true}

-- Return the run of that number, nil if there is none (any more).
function runs.get(number)
  return kept_runs:find(base.digits(number))
end

-- Read several at once, because their numbers are known and they will be asked for.
function runs.load(numbers)
  local fields = {}
  for i = 1, #numbers do
    fields[i] = base.digits(numbers[i])
  end
  kept_runs:load(fields)
end

-- Return the runs of these numbers, but for those that are gone.
function runs.all_of(numbers)
  local found = {}
  runs.load(numbers)
  for i = 1, #numbers do
    found[#found + 1] = runs.get(numbers[i])
  end
  return found
end

-- Return a run as Python reads it (records.py).
function runs.shown(run)
  local number = base.digits(run.number)
  return {
    run.number, unpacked(write(run)), base.text('args', number), run.ties and base.text('ties', number) or false,
    base.text('results', number) or false, run.failed and base.text('failures', number) or false,
  }
end

-- Return a run as a worker gets it (`claimed` in records.py), packed: most have nothing of what stands at the end.
function runs.handed(run, args)
  local text = (run.head or head_of(run)) .. pack(run.number) .. pack(args) .. packed(run.fence) .. packed(run.attempt)
    .. packed(run.crashes) .. packed(run.worker)
  if not run.marked then
    return '\156' .. text
  end
  local number = base.digits(run.number)
  return '\220\0\19' .. text .. pack(
    run.lapsed or false, run.saved and base.text('saved', number) or false, run.timed_out or false, run.messages or 0,
    run.prepared and base.text('prepared', number) or false, run.ties and base.text('ties', number) or false,
    run.memos or 0)
end

-- Return the number of the run with that whole id.
function runs.number_of(id)
  local number = base.text('ids', id)
  return number and tonumber(number) or nil
end

-- Return the run with that whole id.
function runs.named(id)
  local number = runs.number_of(id)
  return number and runs.get(number) or nil
end

-- Return when the first of the questions that the run waits for is answered too late; nil if it asks nothing.
function runs.deadline(run)
  local till
  for _, question in ipairs(run.wait and run.wait.questions or {}) do
    if question[5] and (not till or question[5] < till) then
      till = question[5]
    end
  end
  return till
end

local last_number  -- the newest acceptance number

function runs.last()
  if not last_number then
    last_number = tonumber(call('HGET', PREFIX .. 'counters', 'number') or 0)
  end
  return last_number
end

-- Make a run, with the next acceptance number, on no shelf, and count it as there. `args` is JSON text.
function runs.make(new, lane, due_at)
  last_number = runs.last() + 1
  base.count('counters', 'number', 1)
  base.count('blocks', base.digits(math.floor(last_number / 1000)), 1)
  local run = setmetatable({
    number = last_number, id = new.id, task = new.task, lane = lane, user = new.user or false,
    session = new.session or false, priority = new.priority, state = 'pending', kind = 0, rank = 0, shelf = false,
    fence = 0, attempt = 1, crashes = 0, accepted_at = NOW, due_at = due_at, started_at = false, ended_at = false,
    worker = false, holder = false, seq = 0, log = {},
  }, Run)
  run.retry_of, run.ties = new.retry_of, new.ties
  local field = base.digits(last_number)
  kept_runs:add(field, run)
  base.set_text('ids', new.id, field)
  base.set_text('args', field, new.args)
  if new.ties_text then
    base.set_text('ties', field, new.ties_text)
  end
  if new.follows then
    base.set_text('follows', field, pack(new.follows))
  end
  base.count('states', 'pending', 1)
  return run
end

-- Return what makes records, as `write` does, of runs that are in the ready order of their lane and differ in id, user
-- and rank only: of the packed id and user, and the rank.
function runs.former(task, lane, priority)
  local first = packed(task) .. packed(lane)
  local second = packed(false) .. packed(priority) .. packed('pending') .. packed(0)
  local third = packed('ready') .. packed(0) .. packed(1) .. packed(0) .. packed(NOW) .. packed(NOW) .. packed(false)
    .. packed(false) .. packed(false) .. packed(false) .. packed(0) .. pack({}) .. packed(false)
  return function(id, user, rank)
    return HEADER .. id .. first .. user .. second .. pack(rank) .. third
  end
end

-- Count so many runs as there, pending, behind those that are; return the number before the first of them.
function runs.count_in(count)
  local before = runs.last()
  last_number = before + count
  local first = before + 1
  while first <= last_number do
    local block = math.floor(first / 1000)
    local behind = math.min(last_number, block * 1000 + 999)
    base.count('blocks', base.digits(block), behind - first + 1)
    first = behind + 1
  end
  base.count('counters', 'number', count)
  base.count('states', 'pending', count)
  return before
end

local states  -- by how much their counts grow
local ends = {}  -- by state: ranks and members of the runs that have ended

base.at_begin(function()
  last_number, states, ends = nil, base.growth('states'), {}
end)

function runs.set_state(run, state)
  if run.state ~= state then
    states[run.state] = (states[run.state] or 0) - 1
    states[state] = (states[state] or 0) + 1
    if BESIDE[run.state] then
      call_later('SREM', run.state .. '_runs', base.digits(run.number))
    end
    if BESIDE[state] then
      call_later('SADD', state .. '_runs', base.digits(run.number))
    end
    run.state = state
    if TERMINAL[state] then
      run.ended_at = NOW
      local ended = ends[state] or {}
      ends[state] = ended
      ended[#ended + 1] = NOW
      ended[#ended + 1] = base.member(run.number)
      if run.streamed then
        call_later('ZADD', 'streamed', NOW, base.member(run.number))
      end
    end
  end
end

base.at_end(function()
  for state, ended in pairs(ends) do
    base.send('ZADD', PREFIX .. 'ended:' .. state, ended)
  end
end)
