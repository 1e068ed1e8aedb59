-- needs: state/move_part, rules/wakeups
-- Have no part in a move any more: {move}. Returns "no" if the store has none that can be undone; "empty" if it is a
-- target, which then belongs to nobody's move, is to be emptied, and has to be told once more with true behind; who was
-- interrupted in that begins again.

base.allow_full()
local move, is_empty = unpack(unpacked(ARGV[2]), 1, 2)
local found = move_part.standing()
local given_up = move .. ' (given up)'
if found[2] == given_up and found[1] == 'arriving' then
  return pack('empty')
elseif found[2] ~= move or found[1] == 'arrived' then
  return pack('no')
elseif found[1] == 'arriving' and not is_empty then
  -- Race: a mover that is still about must not fill it again.
  call_later('HSET', 'move', 'move', given_up, 'clearing', '1')
  base.flush()
  return pack('empty')
end
call_later('DEL', 'move')
for _, worker in ipairs(workers.all()) do
  wakeups.nudge(worker.id)
end
base.flush()
return pack('open')
