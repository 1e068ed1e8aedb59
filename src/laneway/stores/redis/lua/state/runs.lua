-- needs: runtime/base, runtime/cached_hash, state/run_records
-- gives: runs, TERMINAL, BESIDE
-- Runs, by acceptance number: hash `runs`, number -> record (state/run_records.lua).

local runs = {}
local HANDED = '\158'  -- the header of a run that is handed to a worker and has nothing rare

local kept_runs = cached_hash.at('runs')

-- Most runs that are moved from one shelf to another need not be read: where they are put is noted here, by number as
-- text, until somebody reads them or the call ends.
local shelves_of, kinds_of = {}, {}

base.at_begin(function()
  shelves_of, kinds_of = {}, {}
end)

kept_runs.to_text = run_records.write

function kept_runs.of_text(text, field)
  local run = run_records.read(text, field)
  if shelves_of[field] then
    run.shelf, run.kind = shelves_of[field], kinds_of[field]
    shelves_of[field], kinds_of[field] = nil, nil
  end
  return run
end

-- Write where the runs were put that nobody has read.
function kept_runs:complete()
  local fields = {}
  for field in pairs(shelves_of) do
    fields[#fields + 1] = field
  end
  self:offer(fields)
  for i = 1, #fields do
    local field = fields[i]
    local text = self.offered[field]
    local is, of = run_records.look(text)
    if is.rare then
      self:find(field)
    else
      self.rewritten[field] = run_records.moved(text, is, of, shelves_of[field], kinds_of[field])
    end
  end
end

-- Note that a run was put on a shelf, as that kind.
function runs.place(number, shelf, kind)
  local field = base.digits(number)
  local run = kept_runs.kept[field] or (kept_runs.rewritten[field] and kept_runs:find(field))
  if run then
    run.shelf, run.kind = shelf, kind
  else
    kept_runs:touch()
    shelves_of[field], kinds_of[field] = shelf, kind
  end
end

-- Read the records of these as texts, by their numbers as texts, unless they were read: they will be asked for.
function runs.offer(fields)
  kept_runs:offer(fields)
end

-- Return what is known of a run, given by its number as text: its state, whose it is, its kind, and its record if nobody
-- has read or changed it in this call. Who has read it gets the run itself instead of the first two.
function runs.glance(field)
  local run = kept_runs.kept[field] or (kept_runs.rewritten[field] and kept_runs:find(field))
  if run then
    return run, run, run.kind
  end
  kept_runs:offer({field})
  local text = kept_runs.offered[field]
  if not text then
    return nil
  end
  local is, of = run_records.look(text)
  return is, of, kinds_of[field] or is.kind, text
end

-- Let this be the record of a run that nobody has read, by its number as text.
function runs.rewrite(field, text)
  shelves_of[field], kinds_of[field] = nil, nil
  kept_runs.rewritten[field] = text
end

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

-- Give a run that ends its result, JSON text.
function runs.set_result(run, value)
  if run_records.is_long(value) then
    base.set_text('results', base.digits(run.number), value)
  else
    run.tail = run_records.with_result(run.tail, value)
  end
end

-- Return a run as Python reads it (codec/decode.py).
function runs.shown(run)
  local number = base.digits(run.number)
  return {
    run.number, unpacked(run_records.write(run)), base.text('args', number),
    run.ties and base.text('ties', number) or false, base.text('results', number) or false,
    run.failed and base.text('failures', number) or false,
  }
end

-- Return a run that has nothing rare as a worker gets it: what stands in its record behind its state, and its lease.
function runs.handed_text(text, told)
  return HANDED .. text .. told
end

-- Return a run as a worker gets it (`claimed` in codec/decode.py), packed: most have nothing of what stands at the end.
function runs.handed(run)
  local tail = run.tail
  if run_records.has_no_args(tail) then
    tail = run_records.tail(runs.args(run), true)
  end
  local text = run.whose .. run_records.last(run, tail)
  local told = pack(run.fence, run.attempt, run.crashes, run.worker)
  if not run.marked then
    return runs.handed_text(text, told)
  end
  text = text .. told
  local number = base.digits(run.number)
  return '\220\0\21' .. text .. pack(
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

-- Add a run that was never written, under its number as text.
function runs.add(field, run)
  kept_runs:add(field, run)
end

local states  -- by how much their counts grow
local ends = {}  -- by state: ranks and members of the runs that have ended

base.at_begin(function()
  states, ends = base.growth('states'), {}
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

-- Count runs whose records are rewritten as started.
function runs.count_started(count)
  states.pending = (states.pending or 0) - count
  states.running = (states.running or 0) + count
end

-- Count runs whose records are rewritten, by their numbers as texts, as ended.
function runs.count_ended(state, fields)
  local count, ended, zeros, now = #fields, ends[state] or {}, {}, base.digits(NOW)
  states.running = (states.running or 0) - count
  states[state] = (states[state] or 0) + count
  ends[state] = ended
  local at = #ended
  for i = 1, count do
    local field = fields[i]
    local zero = zeros[#field]
    if not zero then
      zero = sub(base.member(field), 1, -#field - 1)
      zeros[#field] = zero
    end
    ended[at + 1], ended[at + 2] = now, zero .. field
    at = at + 2
  end
end

base.at_end(function()
  for state, ended in pairs(ends) do
    base.send('ZADD', PREFIX .. 'ended:' .. state, ended)
  end
end)
