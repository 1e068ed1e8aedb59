-- needs: runtime/base, state/run_records, state/new_runs, state/lanes, rules/queue/turns
-- The fast path of submissions, for batches of plain ones (`NewRun.is_plain` in core/records/run.py): they have an id,
-- a task, arguments and a lane, and nothing else. What rules/lifecycle/acceptance.lua would write of them differs in
-- id, number and rank only.
--
-- They come in groups, {ids, arguments, task, lane}. No id is in a batch twice.

local uniform_batch = {}

-- Return whether neither its lane nor its task can refuse a run of the group.
local function is_free(group)
  local book = lanes.find(group[4])
  return book and not book.max_pending and not base.set('disabled')[group[3]]
end

local function is_known(key, ids)
  for first = 1, #ids, MOST_MOVES do
    local found = call('HMGET', PREFIX .. key, unpack(ids, first, min(first + MOST_MOVES - 1, #ids)))
    for i = 1, #found do
      if found[i] then
        return true
      end
    end
  end
  return false
end

-- Write the group at the flush, numbered from `number` on.
local function write(group, number)
  local ids, args, task, lane = unpack(group, 1, 4)
  local front, times = run_records.fresh(task, lane)
  local rank = turns.enter_fresh(lanes.get(lane), 0, #ids)
  local fields, rows, ranks, at = {}, {}, {}, 1
  for i = 1, #ids do
    local field = base.digits(number)
    fields[at], fields[at + 1] = ids[i], field
    rows[at], rows[at + 1] = field, front .. pack(ids[i]) .. times .. run_records.tail(args[i])
    ranks[at], ranks[at + 1] = rank, base.member(number)
    if run_records.is_long(args[i]) then
      new_runs.write_long(field, args[i])
    end
    at, rank, number = at + 2, rank + 1, number + 1
  end
  base.at_this_end(function()
    base.send_fields(PREFIX .. 'ids', fields)
    base.send_fields(PREFIX .. 'runs', rows)
    base.send('ZADD', PREFIX .. 'ready:' .. lane, ranks)
  end)
end

-- Accept a batch that consists of groups; return a receipt for each. Return nil, and do nothing, if one of them needs
-- the ordinary path. This call cannot read the runs that it accepts here.
function uniform_batch.accept(groups)
  for i = 1, #groups do
    local ids = groups[i][1]
    if type(ids) ~= 'table' or not is_free(groups[i]) or is_known('ids', ids)
      or (not base.is_absent('takers') and is_known('takers', ids)) then
      return nil
    end
  end
  local receipts = {}
  for i = 1, #groups do
    local book, count = lanes.get(groups[i][4]), #groups[i][1]
    write(groups[i], new_runs.take_numbers(count) + 1)
    receipts[i] = {'accepted', groups[i][1][1], false, book.pending > 0 and book.pending, false, count}
    book.pending = book.pending + count
  end
  return receipts
end
