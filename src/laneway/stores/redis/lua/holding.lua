-- needs: base, orders, records, runs, sessions
-- Runs of a session that wait to be admitted, by place: sorted set `held:<session>`, but for the first of them. Those stand
-- in the session's book (`heads`), as text: number and score, the next number; how many of them are held no more is
-- `taken`. So ending a run, which lets the next one in, needs no call for it but every twelfth time.
--
-- A score is SCALE times the place, and, of those that have come in their turn, a code for the priority. So of a run whose
-- session's book says whose it is (`held_of`), all is known that admits it, and its record is not read.

local holding = {}

local HEADS = 12  -- of them stand in the book at most
local SCALE, LEAST = 256, 101  -- priorities are greater than -LEAST, codes than 0
holding.LEAST = LEAST

-- What stands in the book is read as a list (`queue`): a number, that as text, its code, the next number.
local function read_heads(book)
  local queue, at = {}, 1
  for member, score in gmatch(book.heads, '(%d+) (%-?%d+)') do
    local number = tonumber(member)
    queue[at], queue[at + 1], queue[at + 2], at = number, base.digits(number), score % SCALE, at + 3
  end
  book.queue = queue
  return queue
end

function holding.forget(book)
  book.heads, book.taken, book.queue, book.tail, book.quick = '', 0, false, false, false
end

-- Let all of them stand in the order; return it.
function holding.leave(session, book)
  local order, nth = orders.at('held:' .. session), 0
  for member, score in gmatch(book.heads, '(%d+) (%-?%d+)') do
    nth = nth + 1
    if nth > book.taken then
      order:put(tonumber(score), tonumber(member))
    end
  end
  holding.forget(book)
  return order
end

-- Let the first of the order stand in the book instead; return them as a list.
local function fill_heads(session, book)
  local order = orders.at('held:' .. session)
  local page = order:take_page(HEADS)
  if not page then
    local number, score = order:take()
    page = {base.member(number), base.digits(score)}
  end
  book.heads, book.taken, book.tail, book.quick = table.concat(page, ' '), 0, false, false
  local queue, at, fields, numbers = base.roomy(), 1, base.numbers_of(page, 1, HEADS)
  for nth = 1, #fields do
    queue[at], queue[at + 1], queue[at + 2], at = numbers[nth], fields[nth], page[2 * nth] % SCALE, at + 3
  end
  book.queue = queue
  return queue
end

-- Put a run behind its session, which counts it already, at that place.
function holding.put(run, place)
  local book = sessions.get(run.session)
  local key = place > 0 and run.state == 'pending' and run.kind == 0 and records.key_of(records.whose_of(run.whose))
  if not key or (book.held > 1 and book.held_of ~= key) then
    key = sessions.NOBODY
  end
  run.shelf, book.held_of = 'held', key
  if place > 0 then  -- it is the last
    orders.at('held:' .. run.session):put(SCALE * place + LEAST + run.priority, run.number)
  else
    holding.leave(run.session, book):put(SCALE * place, run.number)
  end
end

-- Take the first; return its number, that as text, and its priority, which holds if the book says whose it is.
function holding.take(session, book)
  local queue, taken = book.queue or holding.first(session, book), book.taken
  local at = 3 * taken + 1
  local number, field, priority = queue[at], queue[at + 1], queue[at + 2] - LEAST
  book.taken = taken + 1
  if not queue[at + 3] then
    holding.forget(book)
  end
  return number, field, priority
end

-- Return the list of the first; those before `book.taken` are held no more.
function holding.first(session, book)
  return book.queue or (book.heads == '' and fill_heads(session, book)) or read_heads(book)
end

-- Return the place of a run that is held.
function holding.place_of(run)
  local score = match(sessions.get(run.session).heads, base.member(run.number) .. ' (%-?%d+)')
  return holding.place_at(score or call('ZSCORE', PREFIX .. 'held:' .. run.session, base.member(run.number)) or 0)
end

-- Return the place that a score tells, given as text.
function holding.place_at(score)
  return math.floor(tonumber(score) / SCALE)
end

-- Return the runs that a session holds back, in order.
function holding.all(session)
  local numbers, book = {}, sessions.get(session)
  local queue = book.heads ~= '' and holding.first(session, book) or {}
  for at = 3 * book.taken + 1, #queue, 3 do
    numbers[#numbers + 1] = queue[at]
  end
  for _, number in ipairs(orders.at('held:' .. session):all()) do
    numbers[#numbers + 1] = number
  end
  return runs.all_of(numbers)
end
