-- needs: runtime/base, runtime/replies
-- Return chunks of a run's log, those that hold events behind a number and some that follow; where to go on (false:
-- these are all); and its result.
--
-- Arguments: the id, the number, how many events are wanted, and instead of the number, to go on, what was returned the
-- last time. A log in a stream is found by its chunks' numbers, so what a page costs does not grow with what is before
-- it.

local MOST, SIZE = 200, 262144
local id, after, limit, on = unpack(unpacked(ARGV[2]), 1, 4)
local number, record = replies.find(id)
if not number then
  return replies.unknown()
end
local run = unpacked(record)
local rare, chunks, more = run[15] or {}, run[14], false

if rare.spilled then
  local key, from = PREFIX .. 'log:' .. number, nil
  if on then
    from = base.digits(on) .. '-2'
  else
    local holding = call('XREVRANGE', key, base.digits(after + 1) .. '-1', '-', 'COUNT', 1)[1]
    from = holding and holding[1] or '-'
  end
  local most = max(1, min(MOST, limit))  -- each holds an event, at least
  local size, entries = 0, call('XRANGE', key, from, '+', 'COUNT', most)
  chunks = {}
  for i, entry in ipairs(entries) do
    local first, text = tonumber(match(entry[1], '^%d+')), entry[2][2]
    chunks[2 * i - 1], chunks[2 * i] = first, text
    size = size + #text
    if i == most or (size > SIZE and i < #entries) then
      more = first
      break
    end
  end
end
return pack({chunks, more, run[25] or call('HGET', PREFIX .. 'results', number)})
