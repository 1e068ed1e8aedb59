-- needs: runtime/base, runtime/cached_zset, state/run_records
-- Migrate a store from layout 5 to layout 6 in one script. Returns the layout that the store has then; a store of another
-- layout is left as it is.
--
-- In layout 5 the first runs that a session holds stood in its book, and the first runs parked behind a user in the
-- user's seat; a place was followed by a code of the priority; a book could name a run as not started that had started;
-- and the record of a run that was parked right after its admission still had the shelf `held`.

local FROM, TO = 5, 6
local SCALE = 256  -- a score of layout 5 was this times the place, plus the code
local layout = tonumber(call('HGET', PREFIX .. 'meta', 'layout'))
if layout ~= FROM then
  return pack(layout)
end

local function each(name, visit)
  local found = call('HGETALL', PREFIX .. name)
  for i = 1, #found, 2 do
    visit(found[i], unpacked(found[i + 1]))
  end
end

-- Return the number of the run that a session has admitted and that has not started, 0 if there is none.
local function unstarted_of(number)
  local field = base.digits(number)
  local text = number > 0 and call('HGET', PREFIX .. 'runs', field)
  local run = text and run_records.read(text, field)
  if not run or run.fence > 0 then
    return 0
  elseif run.state == 'pending' and run.shelf == 'held' then
    run.shelf = 'parked'
    call_later('HSET', 'runs', field, run_records.write(run))
  end
  return number
end

local function migrate_session(name, book)
  local key, held = 'held:' .. name, call('ZRANGE', PREFIX .. 'held:' .. name, 0, -1, 'WITHSCORES')
  for i = 1, #held, 2 do
    call_later('ZADD', key, base.digits(math.floor(held[i + 1] / SCALE)), held[i])
  end
  for number, score in gmatch(sub(book[8], book[4] + 1), '(%d+) (%-?%d+) ') do
    call_later('ZADD', key, base.digits(math.floor(score / SCALE)), base.member(tonumber(number)))
  end
  local new = {book[1], unstarted_of(book[2]), book[3], book[5], book[6], book[7]}
  for i = 10, 17 do
    new[i - 3] = book[i]
  end
  call_later('HSET', 'sessions', name, pack(new))
end

local function migrate_seat(lane, user, seat)
  local line, key = seat[4] or {}, 'parked:' .. #lane .. ':' .. lane .. ':user:' .. user
  for i = 1, #line, 3 do
    call_later('ZADD', key, base.digits(line[i]), base.member(tonumber(line[i + 1])))
  end
  call_later('HSET', 'seats:' .. lane, user, pack({seat[1], seat[2], seat[3], seat[5]}))
end

-- The reply to a worker's newest step had numbers as one text, and fences by the places where they change.
local function migrate_worker(id, worker)
  if worker[7] then
    local numbers, spans, refused, due_in, more, now, counts = unpack(unpacked(worker[7]), 1, 7)
    local fields, fences, messages, span = {}, {}, {}, -1
    for field in gmatch(numbers, '%d+') do
      local place = #fields + 1
      if spans[span + 2] == place then
        span = span + 2
      end
      fields[place], fences[place], messages[field] = field, spans[span + 1], counts[place]
    end
    worker[7] = pack({fields, fences, refused, due_in, more, now, messages})
    call_later('HSET', 'workers', id, pack(worker))
  end
end

each('sessions', migrate_session)
for _, lane in ipairs(call('HKEYS', PREFIX .. 'lanes')) do
  each('seats:' .. lane, function(user, seat)
    migrate_seat(lane, user, seat)
  end)
end
each('workers', migrate_worker)

-- Race: workers of an older laneway may be running, and cannot read the new layout. For them the store has moved: their
-- steps are refused, and they stop.
local part = call('HGETALL', PREFIX .. 'moving')
if #part > 0 then
  call_later('HSET', 'move', unpack(part))
end
call_later(
  'HSET', 'moving', 'phase', 'frozen', 'move', 'layout 6', 'place', 'layout 6, which needs a newer laneway: upgrade it')
call_later('HSET', 'meta', 'layout', TO)
base.flush()
for _, worker in ipairs(call('HKEYS', PREFIX .. 'workers')) do
  call('PUBLISH', PREFIX .. 'wake:' .. worker, '')
end
return pack(TO)
