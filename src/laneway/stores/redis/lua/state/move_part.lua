-- needs: runtime/base
-- The store's part in a move; core/transfer/move_state.py says what a phase means. What a phase refuses is said by `gate`
-- in frame.lua, before a verb begins.
--
-- Hash `move` (`moving` until layout 5): phase, move (its id), place (the other store's address), mark (JSON), and `clearing` while a target is
-- still being emptied.

local move_part = {}

-- Return the part in a move as {phase, move, place, mark, clearing}; what there is not is false.
function move_part.standing()
  return call('HMGET', PREFIX .. 'move', 'phase', 'move', 'place', 'mark', 'clearing')
end

-- Let the part be this.
function move_part.stand(phase, move, place)
  call_later('DEL', 'move')
  call_later('HSET', 'move', 'phase', phase, 'move', move, 'place', place)
end

-- Return the phase and the other's address if the store is the source of a move, else nil.
function move_part.leaving()
  local found = call('HMGET', PREFIX .. 'move', 'phase', 'place')
  if found[1] == 'shut' or found[1] == 'frozen' then
    return found[1], found[2]
  end
  return nil
end
