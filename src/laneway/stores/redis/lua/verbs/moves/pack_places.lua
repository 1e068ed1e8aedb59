-- needs: admin/pieces, runtime/replies
-- Return the places of runs by number: {after, limit}. Returns {places, last}: `last` is the cursor, false at the end.
-- It reads `limit` runs, most of which may be in no place, because they have ended.

local after, limit = unpack(unpacked(ARGV[2]), 1, 2)
local numbers, places = pieces.numbers(after, limit), {}
for _, run in ipairs(runs.all_of(numbers)) do
  places[#places + 1] = pieces.pack_place(run)
end
return pack({places, #numbers == limit and numbers[limit]})
