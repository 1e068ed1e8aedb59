-- needs: runtime/base, runtime/replies
-- Return keys of runs that are gone, from the nth on: {first, limit}. Returns {keys, next}: each key is {field, entry},
-- and `next` is false at the end.

local first, limit = unpack(unpacked(ARGV[2]), 1, 2)
local fields, found = call('ZRANGE', PREFIX .. 'orphan_keys', first, first + limit - 1), {}
for _, field in ipairs(fields) do
  local text = call('HGET', PREFIX .. 'keys', field)
  local entry = text and unpacked(text)
  -- The key may stand for another run by now.
  if entry and call('HEXISTS', PREFIX .. 'ids', entry[1]) == 0 then
    found[#found + 1] = {field, entry}
  end
end
return pack({found, #fields == limit and first + limit})
