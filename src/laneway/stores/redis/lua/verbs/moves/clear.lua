-- needs: runtime/base
-- Delete some keys of the store, except for its part in a move: {cursor}. Returns the next cursor; after "0" none is
-- left, and a target is ready to be filled.

local cursor = unpacked(ARGV[2])[1]
local KEPT = {[PREFIX .. 'move'] = true, [PREFIX .. 'moving'] = true, [PREFIX .. 'meta'] = true}
local pattern = string.gsub(PREFIX, '([%*%?%[%]\\])', '\\%1') .. '*'
local page = call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000)
for _, key in ipairs(page[2]) do
  if not KEPT[key] then
    call('UNLINK', key)
  end
end
if page[1] == '0' and call('EXISTS', PREFIX .. 'move') == 1 then
  call('HDEL', PREFIX .. 'move', 'clearing')
end
return pack(page[1])
