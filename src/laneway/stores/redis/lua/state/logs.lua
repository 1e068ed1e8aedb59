-- needs: runtime/base, state/runs
-- gives: logs, SPILL
-- Logs: the events of a run, numbered from 1, in chunks: the JSON arrays of core.events.
--
-- The chunks of a short log stand in the run's record (`log`). A long one is spilled into a stream of its own
-- (`log:<number>`), where a chunk has the number of its first event: 17-1.
-- A draft is {kind, data}, both as JSON text: {'"done"', '{"state":"failed"}'}.

local logs = {}
local SPILL = 600  -- bytes of a log that stay in the record
local streams = {}  -- by number: chunks to be added, {first, text}

local last_drafts, last_attempt, last_text  -- many runs are started and end alike
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

local function spill(run, first, text)
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

-- Tell whether these events go into the run's record.
function logs.fit(run, drafts)
  return not run.spilled and not is_too_long(run.log, text_of(drafts, run.attempt))
end

-- Write a chunk of so many events, as text.
function logs.append(run, text, count)
  local first = run.seq + 1
  run.seq = run.seq + count
  if run.spilled then
    spill(run, first, text)
    return
  end
  local log, spills = run.log, is_too_long(run.log, text)
  log[#log + 1] = first
  log[#log + 1] = text
  if spills then
    run.spilled, run.log = true, {}
    for i = 1, #log, 2 do
      spill(run, log[i], log[i + 1])
    end
  end
end

-- Write events into the run's log, in its attempt and now.
function logs.say(run, drafts)
  if #drafts == 0 then
    return
  end
  logs.append(run, text_of(drafts, run.attempt), #drafts)
  for i = 1, #drafts do
    if drafts[i][1] == '"delta"' then
      run.streamed = true
    end
  end
  base.said = true
end

-- Return the draft of an event whose data is {"name":text,...}; values that are JSON already are given as {text}.
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
