-- needs: runtime/base, runtime/replies
-- Return the books of the lanes, the names of those that an operator has set, what is declared, and their counts.
local counts = {}
for i, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
  counts[2 * i - 1], counts[2 * i] = pack(lane), replies.texts('counts:' .. lane)
end
return replies.list({
  replies.hash('lanes'), pack(call('HKEYS', PREFIX .. 'ruled')), replies.hash('declared'), replies.list(counts),
})
