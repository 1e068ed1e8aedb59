-- needs: runtime/base
-- What is on record of jobs' fires.
--
-- List `fires:<job>`: the newest records, {kind, first, last, count, more, reason, run_id, at, nth}, whose numbers have
-- no gaps; what is None is false. Set `recorded:<job>`: the runs in them.

local fire_records = base.lazily(function(fire_records)

local KEPT = 1000
local by_job = {}  -- `last`, the newest that is kept; `again`, what it is now; `new`, those behind it
local recorded = {}  -- by job: runs

base.at_begin(function()
  by_job, recorded = {}, {}
end)

local function records_of(id)
  local kept = by_job[id]
  if not kept then
    local text = call('LINDEX', PREFIX .. 'fires:' .. id, -1)
    kept = {last = text and unpacked(text) or nil, new = {}}
    by_job[id] = kept
  end
  return kept
end

-- Return the newest record of a job.
function fire_records.newest(id)
  local kept = records_of(id)
  return kept.new[#kept.new] or kept.again or kept.last
end

-- Write a record; it takes the place of the newest if that has its number.
function fire_records.record(id, record)
  local kept, newest = records_of(id), fire_records.newest(id)
  if not newest or newest[9] ~= record[9] then
    kept.new[#kept.new + 1] = record
  elseif #kept.new > 0 then
    kept.new[#kept.new] = record
  else
    kept.again = record
  end
  if record[7] then
    recorded[id] = recorded[id] or {}
    recorded[id][record[7]] = true
  end
end

-- Tell whether the job has a record of that run.
function fire_records.has(id, run_id)
  return recorded[id] and recorded[id][run_id] or call('SISMEMBER', PREFIX .. 'recorded:' .. id, run_id) == 1
end

-- Forget the records of a job.
function fire_records.forget(id)
  by_job[id], recorded[id] = nil, nil
  call_later('DEL', 'fires:' .. id)
  call_later('DEL', 'recorded:' .. id)
end

-- Let the oldest records of a job go, and the runs in them.
local function let_go(id, key)
  local over = call('LLEN', key) - KEPT
  if over > 0 then
    local runs = {}
    for _, text in ipairs(call('LRANGE', key, 0, over - 1)) do
      runs[#runs + 1] = unpacked(text)[7] or nil
    end
    call('LTRIM', key, over, -1)
    base.send('SREM', PREFIX .. 'recorded:' .. id, runs)
  end
end

base.at_end(function()
  for id, kept in pairs(by_job) do
    local key, texts = PREFIX .. 'fires:' .. id, {}
    for i = 1, #kept.new do
      texts[i] = pack(kept.new[i])
    end
    if kept.again then
      call('LSET', key, -1, pack(kept.again))
    end
    base.send('RPUSH', key, texts)
    base.send('SADD', PREFIX .. 'recorded:' .. id, base.sorted_keys(recorded[id] or {}))
    if #texts > 0 then
      let_go(id, key)
    end
  end
end)

end)
