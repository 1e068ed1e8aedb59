-- needs: runtime/base, state/runs, state/logs
-- Replace a run's log by a trimmed one: {number, chunks}; chunks are first numbers and texts in turn. Returns whether
-- that was done: another client may have done it before.
--
-- The log of a run that has ended does not change any more. So if the run is still listed as untrimmed, its log is the
-- one that the caller has read.

local number, chunks = unpack(unpacked(ARGV[2]), 1, 2)
local member = base.member(number)
if not call('ZSCORE', PREFIX .. 'streamed', member) then
  return pack(false)
end
call_later('ZREM', 'streamed', member)
local run = runs.get(number)
if run then
  local key = 'log:' .. base.digits(number)
  if run.spilled then
    call_later('UNLINK', key)
  end
  run.streamed, run.log, run.spilled = nil, chunks, nil
  local size = 0
  for i = 2, #chunks, 2 do
    size = size + #chunks[i]
  end
  if size > SPILL then
    run.log, run.spilled = {}, true
    for i = 1, #chunks, 2 do
      call_later('XADD', key, base.digits(chunks[i]) .. '-1', 'c', chunks[i + 1])
    end
  end
end
base.allow_full()
base.flush()
return pack(true)
