-- needs: runtime/base, runtime/cached_hash, state/records, state/sessions
-- gives: runs, TERMINAL, BESIDE
-- Runs, by acceptance number: hash `runs`, number -> record (records.lua).
--
-- A record that says `held`, of a run that was never started and that its session has admitted, is older than that: the
-- run is parked behind its user (`runs.park`). Only who reads records as they are kept has to know.

local runs = {}
local HANDED = '\158'  -- the header of a run that is handed to a worker and has nothing rare

local kept_runs = cached_hash.at('runs')

-- Most that are moved from one shelf to another are never looked at: where they are put is noted here, by number, until
-- somebody reads them, or this call ends. Those that are parked are told by a kind that is less by PARKED.
local kinds_of = {}
local PARKED = 1000
local any_read = false  -- somebody has read a run, and may have to be told

-- Those that came back and whose start lets nobody into their sessions stand here instead: by number, that as text.
local lone_of = {}
local CAME_BACK = 2  -- their kind

-- The same tables for those who are in a hurry; `kinds` as long as nobody has read a run: then it is `runs.place` that
-- notes.
runs.kinds, runs.lone = nil, lone_of

-- What the records say whose texts were looked at, by number as text: state, and whose it is.
local states_of, owners_of = {}, {}

base.at_begin(function()
  kinds_of, lone_of, any_read, runs.kinds = {}, {}, false, nil
  runs.lone = lone_of
  states_of, owners_of = {}, {}
end)

local function noted(number)
  local kind = kinds_of[number]
  if not kind then
    return 'ready', CAME_BACK
  elseif kind < 0 then
    return 'parked', kind + PARKED
  end
  return 'ready', kind
end

kept_runs.to_text = records.write

function kept_runs.of_text(text, field)
  local run = records.read(text, field)
  local number = run.number
  any_read, runs.kinds = true, nil
  if kinds_of[number] or lone_of[number] then
    run.shelf, run.kind = noted(number)
    kinds_of[number], lone_of[number] = nil, nil
  elseif run.shelf == 'held' and run.state == 'pending' and run.is.fence == 0 then
    local book = sessions.find(run.session)
    if book and book.unstarted_then == number then
      run.shelf = 'parked'
    end
  end
  return run
end

local function look(field, text)
  local is, of = records.look(text)
  states_of[field], owners_of[field] = is, of
  return is, of
end

-- Write where those are that nobody has read.
function kept_runs:complete()
  local fields, numbers, rewritten, offered = {}, {}, self.rewritten, self.offered
  for number in pairs(kinds_of) do
    fields[#fields + 1], numbers[#numbers + 1] = base.digits(number), number
  end
  for number, field in pairs(lone_of) do
    fields[#fields + 1], numbers[#numbers + 1] = field, number
  end
  if #fields == 0 then
    return
  end
  self:offer(fields)
  for i = 1, #fields do
    local field = fields[i]
    local is = states_of[field] or (offered[field] and look(field, offered[field]))
    if is and not is.rare then
      rewritten[field] = records.moved(offered[field], is, owners_of[field], noted(numbers[i]))
    else
      self:find(field)
    end
  end
end

-- Note that a run was put into the ready order of its lane (`parked`: behind its user), as that kind; `lone` is its
-- number as text if its start lets nobody into its session.
function runs.place(number, parked, kind, lone)
  local field = any_read and base.digits(number)
  local run = field and (kept_runs.kept[field] or (kept_runs.rewritten[field] and kept_runs:find(field)))
  if run then
    run.shelf, run.kind = parked and 'parked' or 'ready', kind
    return
  elseif not kept_runs.key then
    kept_runs:touch()
  end
  kinds_of[number], lone_of[number] = not lone and (parked and kind - PARKED or kind) or nil, lone
end

-- Note that a run that was held and never started was parked behind its user, and that its session's book has it as
-- admitted: its record, which nobody has to read, stays as it is. It is given by its number as text.
function runs.park(field)
  local run = any_read and kept_runs.kept[field]
  if run then
    run.shelf = 'parked'
  end
end

-- Tell whether a run was ever started, whatever its session's book says.
function sessions.has_started(number)
  local field = base.digits(number)
  if kept_runs.rewritten[field] then
    return true  -- nobody else's text is written as it is
  end
  local run = kept_runs.kept[field]
  if run ~= nil then
    return run and run.fence > 0
  end
  local is = states_of[field]
  if not is then
    kept_runs:offer({field})
    local text = kept_runs.offered[field]
    is = text and look(field, text)
  end
  return is ~= nil and is.fence > 0
end

-- Read the records of these as texts, by their numbers as texts, unless they were read: they will be asked for.
function runs.offer(fields)
  kept_runs:offer(fields)
end

-- Return what is known of a run by its number as text: its state, and whose it is.
function runs.glance(field)
  local is = states_of[field]
  if is and not any_read then
    return is, owners_of[field]
  end
  local run = kept_runs.kept[field] or (kept_runs.rewritten[field] and kept_runs:find(field))
  if run then
    return run, run
  end
  local offered = kept_runs.offered
  if not offered[field] then
    kept_runs:offer({field})
  end
  return look(field, offered[field])
end

-- Return what is known of runs that nobody may have read, by their numbers as texts: tables of records that are to be
-- written, of such as were read, and of runs made of these; by their numbers, as what kinds they were put where they are;
-- and, of those that were looked at, by their numbers as texts, their states, and whose they are.
function runs.unread()
  kept_runs:touch()
  return kept_runs.rewritten, kept_runs.offered, kept_runs.kept, kinds_of, states_of, owners_of
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

-- Return the records of these as texts, nil for one that this call has read, and three tables, by number as text: to put
-- other texts into that are written in their place, to leave those in that are to be read after all, and those read.
function runs.texts(fields)
  local texts = kept_runs:untouched(fields)
  runs.kinds = not any_read and kinds_of or nil
  return texts, kept_runs.rewritten, kept_runs.offered, kept_runs.kept
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
  if records.is_long(value) then
    base.set_text('results', base.digits(run.number), value)
  else
    run.tail = records.with_result(run.tail, value)
  end
end

-- Return a run as Python reads it (codec/decode.py).
function runs.shown(run)
  local number = base.digits(run.number)
  return {
    run.number, unpacked(records.write(run)), base.text('args', number),
    run.ties and base.text('ties', number) or false, base.text('results', number) or false,
    run.failed and base.text('failures', number) or false,
  }
end

-- Return a run as a worker gets it (`claimed` in codec/decode.py), packed: most have nothing of what stands at the end.
function runs.handed(run)
  local tail = run.tail
  if records.has_no_args(tail) then
    tail = records.tail(runs.args(run), true)
  end
  local text = run.whose .. records.last(run, tail) .. pack(run.fence, run.attempt, run.crashes, run.worker)
  if not run.marked then
    return HANDED .. text
  end
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

-- Add a run that was never written by its record, under its number as text. Whoever does this puts it somewhere.
function runs.bring(field, text)
  kept_runs:touch()
  kept_runs.offered[field] = text
end

-- Add one that nobody asks for in this call.
function runs.write(field, text)
  kept_runs:touch()
  kept_runs.rewritten[field] = text
end

-- Add a run that was never written, under its number as text.
function runs.add(field, run)
  any_read, runs.kinds = true, nil
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
