-- needs: runtime/base
-- The store's part in a move between stores; core/transfer/move_state.py explains the phases. `gate` in runtime/frame.lua
-- refuses what a phase forbids, before a verb begins.
--
-- Hash `move` (`moving` until layout 5): phase, move (its id), place (the other store's address), mark (JSON), and
-- `clearing` while a target is still being emptied.

local move_part = {}

-- Return the part as {phase, move, place, mark, clearing}; a missing value is false.
function move_part.standing()
  return call('HMGET', PREFIX .. 'move', 'phase', 'move', 'place', 'mark', 'clearing')
end

function move_part.set(phase, move, place)
  call_later('DEL', 'move')
  call_later('HSET', 'move', 'phase', phase, 'move', move, 'place', place)
end

-- Return phase and address of the other store if this one is the source of a move, else nil.
function move_part.leaving()
  local found = call('HMGET', PREFIX .. 'move', 'phase', 'place')
  if found[1] == 'shut' or found[1] == 'frozen' then
    return found[1], found[2]
  end
  return nil
end
