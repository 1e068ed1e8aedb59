-- needs: runtime/base, state/run_records, state/new_runs, state/lanes, rules/queue/turns
-- The fast path in, for batches of plain submissions (`NewRun.is_plain` in core/records/run.py): they have an id, a task, arguments
-- and a lane, and nothing else. What rules/lifecycle/acceptance.lua would write of each is known but for its id, number and rank.
--
-- They come in groups, {ids, arguments, task, lane}. No id is in a batch twice.

local uniform_batch = {}

-- Tell whether nothing keeps the group from going in as it is.
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

-- Let the group be written at the end, numbered from `number` on.
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
      new_runs.keep_long(field, args[i])
    end
    at, rank, number = at + 2, rank + 1, number + 1
  end
  base.at_this_end(function()
    base.send_fields(PREFIX .. 'ids', fields)
    base.send_fields(PREFIX .. 'runs', rows)
    base.send('ZADD', PREFIX .. 'ready:' .. lane, ranks)
  end)
end

-- Accept a batch that is all groups; return of each how many runs of its lane were before its first. Returns nil, and has
-- done nothing, if one of them has to go the other way. What it accepts cannot be read in this call.
function uniform_batch.accept(groups)
  for i = 1, #groups do
    local ids = groups[i][1]
    if type(ids) ~= 'table' or not is_free(groups[i]) or is_known('ids', ids)
      or (not base.is_absent('takers') and is_known('takers', ids)) then
      return nil
    end
  end
  local ahead = {}
  for i = 1, #groups do
    local book, count = lanes.get(groups[i][4]), #groups[i][1]
    write(groups[i], new_runs.count_in(count) + 1)
    ahead[i] = book.pending
    book.pending = book.pending + count
  end
  return ahead
end
