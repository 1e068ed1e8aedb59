-- needs: runtime/base, runtime/replies, admin/parked_sets
-- Return how many runs are in each state, and of the pending ones how many are ready, parked and of the future; the
-- rest are held.
local ready, set_aside = 0, 0
for _, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
  ready = ready + call('ZCARD', PREFIX .. 'ready:' .. lane)
  for _, seat in ipairs(call('HVALS', PREFIX .. 'seats:' .. lane)) do
    set_aside = set_aside + unpacked(seat)[2]
  end
end
for _, set in ipairs(parked_sets.sizes()) do
  set_aside = set_aside + set[4]
end
return replies.list({replies.texts('states'), pack({ready, set_aside, call('ZCARD', PREFIX .. 'due')})})
