-- needs: runtime/base, state/runs
-- gives: logs, SPILL
-- Logs: the events of a run, numbered from 1, in chunks, which are the JSON arrays of core/records/events.py.
--
-- The chunks of a short log stand in the run's record (`log`). A long log is in a stream of its own (`log:<number>`),
-- where a chunk has the number of its first event: 17-1. A draft is {kind, data}, both JSON texts: {'"done"',
-- '{"state":"failed"}'}.

local logs = {}
local SPILL = 600  -- the longest log that stands in the record, in bytes
local streams = {}  -- by number: chunks to add, {first, text}

local last_drafts, last_attempt, last_text  -- many runs of a batch get the same events
local starts = {}  -- by worker: the drafts of a start

base.at_begin(function()
  streams, last_drafts, starts = {}, nil, {}
end)

local function text_of(drafts, attempt)
  if drafts == last_drafts and attempt == last_attempt then
    return last_text
  end
  local at, rows = base.digits(NOW), {}
  for i = 1, #drafts do
    rows[i] = '[' .. drafts[i][1] .. ',' .. attempt .. ',' .. at .. ',' .. drafts[i][2] .. ']'
  end
  last_drafts, last_attempt, last_text = drafts, attempt, '[' .. table.concat(rows, ',') .. ']'
  return last_text
end

local function add_to_stream(run, first, text)
  local chunks = streams[run.number]
  if not chunks then
    chunks = {}
    streams[run.number] = chunks
  end
  chunks[#chunks + 1] = {first, text}
end

local function is_too_long(log, text)
  local size = #text
  for i = 2, #log, 2 do
    size = size + #log[i]
  end
  return size > SPILL
end

-- Return whether these events fit into the run's record.
function logs.fit(run, drafts)
  return not run.spilled and not is_too_long(run.log, text_of(drafts, run.attempt))
end

-- Write a chunk of so many events.
function logs.append(run, text, count)
  local first = run.seq + 1
  run.seq = run.seq + count
  if run.spilled then
    add_to_stream(run, first, text)
    return
  end
  local log, spills = run.log, is_too_long(run.log, text)
  log[#log + 1] = first
  log[#log + 1] = text
  if spills then
    run.spilled, run.log = true, {}
    for i = 1, #log, 2 do
      add_to_stream(run, log[i], log[i + 1])
    end
  end
end

-- Write events of now and of the run's attempt into its log.
function logs.write(run, drafts)
  if #drafts == 0 then
    return
  end
  logs.append(run, text_of(drafts, run.attempt), #drafts)
  for i = 1, #drafts do
    if drafts[i][1] == '"delta"' then
      run.streamed = true
    end
  end
  base.wrote_events = true
end

-- Return the draft of an event: its kind, then names and values of its data. A value that is JSON already is given as
-- {text}.
function logs.draft(kind, ...)
  local data, pairs_ = {}, {...}
  for i = 1, select('#', ...), 2 do
    local value = pairs_[i + 1]
    if type(value) == 'table' then
      value = value[1]
    elseif value == nil or value == false then
      value = 'null'
    elseif type(value) == 'number' then
      value = base.digits(value)
    else
      value = cjson.encode(value)
    end
    data[#data + 1] = '"' .. pairs_[i] .. '":' .. value
  end
  return {'"' .. kind .. '"', '{' .. table.concat(data, ',') .. '}'}
end

-- Return the drafts of a start by that worker.
function logs.started(worker)
  if not starts[worker] then
    starts[worker] = {{'"started"', '{"worker":' .. cjson.encode(worker) .. '}'}}
  end
  return starts[worker]
end

function logs.done(state)
  return logs.draft('done', 'state', state)
end

base.at_end(function()
  for number, chunks in pairs(streams) do
    for i = 1, #chunks do
      call('XADD', PREFIX .. 'log:' .. base.digits(number), base.digits(chunks[i][1]) .. '-1', 'c', chunks[i][2])
    end
  end
end)
