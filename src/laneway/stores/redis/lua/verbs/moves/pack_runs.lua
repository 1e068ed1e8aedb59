-- needs: admin/pieces, runtime/replies
-- Return runs by number, with all that belongs to them: {after, limit}. Returns {runs, last}: `last` is the cursor,
-- false at the end. A page with long logs is shorter.

local MOST = 4194304  -- bytes, about
local after, limit = unpack(unpacked(ARGV[2]), 1, 2)
local numbers, parts, size = pieces.numbers(after, limit), {}, 0
local last = #numbers == limit and numbers[limit]
for i = 1, #numbers do
  parts[i] = pack(pieces.pack_run(runs.get(numbers[i])))
  size = size + #parts[i]
  if size > MOST and i < #numbers then
    last = numbers[i]
    break
  end
end
return replies.list({replies.list(parts), pack(last)})
