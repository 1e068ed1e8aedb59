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

-- Read what stands in the book: numbers as they are, and as texts, and codes.
local function read_heads(book)
  local numbers, fields, codes = {}, {}, {}
  for member, score in gmatch(book.heads, '(%d+) (%-?%d+)') do
    local number, nth = tonumber(member), #numbers + 1
    numbers[nth], fields[nth], codes[nth] = number, base.digits(number), score % SCALE
  end
  book.numbers, book.fields, book.codes = numbers, fields, codes
  return fields
end

local function forget_heads(book)
  book.heads, book.taken, book.numbers, book.fields, book.codes, book.tail = '', 0, false, false, false, false
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
  forget_heads(book)
  return order
end

-- Let the first of the order stand in the book instead; return their numbers as texts.
local function fill_heads(session, book)
  local order = orders.at('held:' .. session)
  local page = order:take_page(HEADS)
  if not page then
    local number, score = order:take()
    page = {base.member(number), base.digits(score)}
  end
  book.heads, book.taken, book.tail = table.concat(page, ' '), 0, false
  local codes, fields, numbers = base.roomy(), base.numbers_of(page, 1, HEADS)
  for nth = 1, #fields do
    codes[nth] = page[2 * nth] % SCALE
  end
  book.numbers, book.fields, book.codes = numbers, fields, codes
  return fields
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
  local fields, taken = book.fields or holding.first(session, book), book.taken + 1
  local number, field, priority = book.numbers[taken], fields[taken], book.codes[taken] - LEAST
  book.taken = taken
  if not fields[taken + 1] then
    forget_heads(book)
  end
  return number, field, priority
end

-- Return the numbers of the first, as texts, those behind `book.taken`.
function holding.first(session, book)
  return book.fields or (book.heads == '' and fill_heads(session, book)) or read_heads(book)
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
  if book.heads ~= '' then
    holding.first(session, book)
    numbers = {unpack(book.numbers, book.taken + 1)}
  end
  for _, number in ipairs(orders.at('held:' .. session):all()) do
    numbers[#numbers + 1] = number
  end
  return runs.all_of(numbers)
end
