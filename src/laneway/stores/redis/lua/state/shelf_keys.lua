-- The names of the sorted sets that are shelves (rules/queue/shelves.lua), without the prefix.

local shelf_keys = {}

-- Return the name of a parked set; the length of the lane's name keeps names apart that contain colons.
function shelf_keys.parked(lane, gate)
  return 'parked:' .. #lane .. ':' .. lane .. ':' .. gate
end

-- Return the name of a shelf: of a lane or session (`owner`) and, if runs are parked there, of a gate.
function shelf_keys.of(shelf, owner, gate)
  if shelf == 'parked' then
    return shelf_keys.parked(owner, gate)
  end
  return shelf == 'due' and shelf or shelf .. ':' .. owner
end
