-- needs: state/move_part, rules/wakeups
-- Undo the store's part in a move: {move, is_empty}. Returns "no" if the store has no part that can be undone, "open"
-- if it was undone, and "empty" for a target: the caller must empty it and call again with `is_empty`.

base.allow_full()
local move, is_empty = unpack(unpacked(ARGV[2]), 1, 2)
local found = move_part.standing()
local given_up = move .. ' (given up)'
if found[2] == given_up and found[1] == 'arriving' then
  return pack('empty')
elseif found[2] ~= move or found[1] == 'arrived' then
  return pack('no')
elseif found[1] == 'arriving' and not is_empty then
  -- Race: a mover that is still running must not fill the store again. Under another id it does not know the move.
  call_later('HSET', 'move', 'move', given_up, 'clearing', '1')
  base.flush()
  return pack('empty')
end
call_later('DEL', 'move')
for _, worker in ipairs(workers.all()) do
  wakeups.send(worker.id, '')
end
base.flush()
return pack('open')
