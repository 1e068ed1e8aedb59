-- needs: runtime/base, runtime/replies
-- Return chunks of a run's log: {id, after, limit, cursor}. The first chunk has the event behind the number `after`;
-- `limit` is how many events the caller wants. Returns {chunks, cursor, result}; the cursor is false at the end.
--
-- A stream finds chunks by their numbers, so the cost of a page does not depend on what is before it.

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
  local most = max(1, min(MOST, limit))  -- each chunk has at least one event
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
