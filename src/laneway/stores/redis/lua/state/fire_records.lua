-- needs: runtime/base
-- The records of jobs' fires.
--
-- List `fires:<job>`: the newest records, {kind, first, last, count, more, reason, run_id, at, nth}; `nth` has no gaps,
-- and what is None is false. Set `recorded:<job>`: the runs in them.

local fire_records = {}

local KEPT = 1000  -- records per job
local by_job = {}  -- `last`, the newest that is stored; `replaced`, its new form; `new`, the records behind it
local recorded = {}  -- by job: runs

base.at_begin(function()
  by_job, recorded = {}, {}
end)

local function records_of(id)
  local records = by_job[id]
  if not records then
    local text = call('LINDEX', PREFIX .. 'fires:' .. id, -1)
    records = {last = text and unpacked(text) or nil, new = {}}
    by_job[id] = records
  end
  return records
end

-- Return the newest record of a job.
function fire_records.newest(id)
  local records = records_of(id)
  return records.new[#records.new] or records.replaced or records.last
end

-- Write a record; it replaces the newest one if that has the same number.
function fire_records.record(id, record)
  local records, newest = records_of(id), fire_records.newest(id)
  if not newest or newest[9] ~= record[9] then
    records.new[#records.new + 1] = record
  elseif #records.new > 0 then
    records.new[#records.new] = record
  else
    records.replaced = record
  end
  if record[7] then
    recorded[id] = recorded[id] or {}
    recorded[id][record[7]] = true
  end
end

-- Return whether the job has a record of that run.
function fire_records.has(id, run_id)
  return recorded[id] and recorded[id][run_id] or call('SISMEMBER', PREFIX .. 'recorded:' .. id, run_id) == 1
end

-- Delete the records of a job.
function fire_records.delete(id)
  by_job[id], recorded[id] = nil, nil
  call_later('DEL', 'fires:' .. id)
  call_later('DEL', 'recorded:' .. id)
end

-- Delete the oldest records of a job when there are too many, and the runs in them.
local function delete_oldest(id, key)
  local surplus = call('LLEN', key) - KEPT
  if surplus > 0 then
    local runs = {}
    for _, text in ipairs(call('LRANGE', key, 0, surplus - 1)) do
      runs[#runs + 1] = unpacked(text)[7] or nil
    end
    call('LTRIM', key, surplus, -1)
    base.send('SREM', PREFIX .. 'recorded:' .. id, runs)
  end
end

base.at_end(function()
  for id, records in pairs(by_job) do
    local key, texts = PREFIX .. 'fires:' .. id, {}
    for i = 1, #records.new do
      texts[i] = pack(records.new[i])
    end
    if records.replaced then
      call('LSET', key, -1, pack(records.replaced))
    end
    base.send('RPUSH', key, texts)
    base.send('SADD', PREFIX .. 'recorded:' .. id, base.sorted_keys(recorded[id] or {}))
    if #texts > 0 then
      delete_oldest(id, key)
    end
  end
end)
