-- needs: admin/pieces, runtime/replies
-- Return where the runs behind a number are: {after, limit}. Answers {places, last}: `last` is false if these were the
-- last. It looks at `limit` runs, most of which may be nowhere, because they have ended.

local after, limit = unpack(unpacked(ARGV[2]), 1, 2)
local numbers, places = pieces.numbers(after, limit), {}
for _, run in ipairs(runs.all_of(numbers)) do
  places[#places + 1] = pieces.pack_place(run)
end
return pack({places, #numbers == limit and numbers[limit]})
