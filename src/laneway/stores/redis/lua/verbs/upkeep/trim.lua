-- needs: runtime/base, state/runs, state/logs
-- Put a trimmed log in the place of a run's log. Return whether that was done: somebody else may have done it before.
--
-- Arguments: the run's number and the chunks: first number, text, the next first number. What a run that has ended has
-- said does not change any more, so whoever is found here still untrimmed has the log that was read.

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
