-- needs: runtime/base, runtime/cached_hash, state/run_records
-- gives: runs, TERMINAL, BESIDE
-- Runs by acceptance number: hash `runs`, number -> record (state/run_records.lua).
--
-- "Field" is a number as text.

local runs = {}
local PLAIN_HANDED = '\158'  -- the header of a plain run as a worker gets it: 14 values

-- Terminal states. Sorted sets `ended:<state>` list their runs by when they ended.
local TERMINAL = {succeeded = true, failed = true, cancelled = true, dropped = true}

-- Runs in these states are on no shelf and under no lease. Sets `paused_runs` and `waiting_runs` list them.
local BESIDE = {paused = true, waiting = true}

local cache = cached_hash.at('runs')

-- Most runs that are moved from one shelf to another need not be parsed: their new shelf and kind are noted here, by
-- field, until something parses them or the call ends.
local new_shelves, new_kinds = {}, {}
local statuses, labels = {}, {}  -- parsed parts of records, by field

base.at_begin(function()
  new_shelves, new_kinds, statuses, labels = {}, {}, {}, {}
end)

cache.to_text = run_records.write

function cache.of_text(text, field)
  local run = run_records.read(text, field)
  if new_shelves[field] then
    run.shelf, run.kind = new_shelves[field], new_kinds[field]
    new_shelves[field], new_kinds[field] = nil, nil
  end
  return run
end

-- Write the new shelves of runs that nothing has parsed.
function cache:complete()
  local fields = {}
  for field in pairs(new_shelves) do
    fields[#fields + 1] = field
  end
  self:prefetch(fields)
  for i = 1, #fields do
    local field = fields[i]
    local text = self.prefetched[field]
    local status, of = run_records.peek(text)
    if status.rare then
      self:find(field)
    else
      self.rewritten[field] = run_records.moved(text, status, of, new_shelves[field], new_kinds[field])
    end
  end
end

local function parsed(field)
  return cache.values[field] or (cache.rewritten[field] and cache:find(field))
end

-- Note that a run is on that shelf now, and of that kind.
function runs.place(number, shelf, kind)
  local field = base.digits(number)
  local run = parsed(field)
  if run then
    run.shelf, run.kind = shelf, kind
  else
    cache:use()
    new_shelves[field], new_kinds[field] = shelf, kind
  end
end

-- Read the records of these fields in one command.
function runs.prefetch(fields)
  cache:prefetch(fields)
end

-- Return status, labels and kind of a run without parsing more, and its record if nothing has parsed or changed it in
-- this call; else the run itself stands for status and labels. Returns nil if there is no such run.
function runs.peek(field)
  local run = parsed(field)
  if run then
    return run, run, run.kind
  end
  if cache.prefetched[field] == nil then
    cache:prefetch({field})
  end
  local text = cache.prefetched[field]
  if not text then
    return nil
  end
  if not statuses[field] then
    statuses[field], labels[field] = run_records.peek(text)
  end
  local status = statuses[field]
  return status, labels[field], new_kinds[field] or status.kind, text
end

-- Replace the record of a run that nothing has parsed in this call.
function runs.rewrite(field, text)
  new_shelves[field], new_kinds[field] = nil, nil
  cache.rewritten[field] = text
end

-- Return the run of that number, nil if there is none.
function runs.get(number)
  return cache:find(base.digits(number))
end

-- Read several runs in one command.
function runs.load(numbers)
  local fields = {}
  for i = 1, #numbers do
    fields[i] = base.digits(numbers[i])
  end
  cache:load(fields)
end

-- Return the runs of these numbers, without those that are gone.
function runs.all_of(numbers)
  local found = {}
  runs.load(numbers)
  for i = 1, #numbers do
    found[#found + 1] = runs.get(numbers[i])
  end
  return found
end

-- Add a new run.
function runs.add(field, run)
  cache:add(field, run)
end

-- Return the number of the run with this id.
function runs.number_of(id)
  local number = base.text('ids', id)
  return number and tonumber(number) or nil
end

-- Return the run with this id.
function runs.named(id)
  local number = runs.number_of(id)
  return number and runs.get(number) or nil
end

-- Return the run's arguments, JSON text.
function runs.args(run)
  local _, args = unpack_limit(run.tail, 1)
  return args or base.text('args', base.digits(run.number))
end

-- Return the run's result, JSON text; false if it has none.
function runs.result(run)
  local _, _, result = unpack_limit(run.tail, 2)
  return result or base.text('results', base.digits(run.number)) or false
end

-- Set the result of a run that ends, JSON text.
function runs.set_result(run, value)
  if run_records.is_long(value) then
    base.set_text('results', base.digits(run.number), value)
  else
    run.tail = run_records.with_result(run.tail, value)
  end
end

-- Return when the first question of a waiting run expires; nil if it asks nothing.
function runs.deadline(run)
  local till
  for _, question in ipairs(run.wait and run.wait.questions or {}) do
    if question[5] and (not till or question[5] < till) then
      till = question[5]
    end
  end
  return till
end

-- Replies ---------------------------------------------------------------------------------------------------------

-- Return a run as `run_of` in codec/decode.py reads it.
function runs.shown(run)
  local number = base.digits(run.number)
  return {
    run.number, unpacked(run_records.write(run)), base.text('args', number),
    run.ties and base.text('ties', number) or false, base.text('results', number) or false,
    run.failed and base.text('failures', number) or false,
  }
end

-- Return a run without rare fields as a worker gets it: labels and body of its record, and its lease.
function runs.plain_handed(behind_status, lease)
  return PLAIN_HANDED .. behind_status .. lease
end

-- Return a run as a worker gets it, packed; `claimed` in codec/decode.py reads it. Most runs have none of the last
-- seven values, which are left out then.
function runs.handed(run)
  local tail = run.tail
  if run_records.has_no_args(tail) then
    tail = run_records.tail(runs.args(run), true)
  end
  local text = run.labels .. run_records.body(run, tail)
  local lease = pack(run.fence, run.attempt, run.crashes, run.worker)
  if not run.marked then
    return runs.plain_handed(text, lease)
  end
  local number = base.digits(run.number)
  return '\220\0\21' .. text .. lease .. pack(
    run.lapsed or false, run.saved and base.text('saved', number) or false, run.timed_out or false, run.messages or 0,
    run.prepared and base.text('prepared', number) or false, run.ties and base.text('ties', number) or false,
    run.memos or 0)
end

-- States ----------------------------------------------------------------------------------------------------------

local states  -- increments of their counts
local ended  -- by state: ranks and members of the runs that have ended in this call

base.at_begin(function()
  states, ended = base.increments('states'), {}
end)

local function ended_in(state)
  local list = ended[state]
  if not list then
    list = {}
    ended[state] = list
  end
  return list
end

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
      local list = ended_in(state)
      list[#list + 1] = NOW
      list[#list + 1] = base.member(run.number)
      if run.streamed then
        call_later('ZADD', 'streamed', NOW, base.member(run.number))
      end
    end
  end
end

-- Count runs whose records were rewritten as started.
function runs.count_started(count)
  states.pending = (states.pending or 0) - count
  states.running = (states.running or 0) + count
end

-- Count runs whose records were rewritten as ended.
function runs.count_ended(state, fields)
  local count, list, zeros, now = #fields, ended_in(state), {}, base.digits(NOW)
  states.running = (states.running or 0) - count
  states[state] = (states[state] or 0) + count
  local at = #list
  for i = 1, count do
    local field = fields[i]
    local zero = zeros[#field]
    if not zero then
      zero = sub(base.member(field), 1, -#field - 1)
      zeros[#field] = zero
    end
    list[at + 1], list[at + 2] = now, zero .. field
    at = at + 2
  end
end

base.at_end(function()
  for state, list in pairs(ended) do
    base.send('ZADD', PREFIX .. 'ended:' .. state, list)
  end
end)
