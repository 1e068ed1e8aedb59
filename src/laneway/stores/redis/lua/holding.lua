-- needs: base, orders, runs, sessions
-- Runs of a session that wait to be admitted, by place: sorted set `held:<session>`, but for the first of them. Those stand
-- in the session's book (`heads`), as text: number and place, the next number; how many of them are held no more is
-- `taken`. So ending a run, which lets the next one in, needs no call for it but every twelfth time.

local holding = {}

local HEADS = 12  -- of them stand in the book at most

-- Read what stands in the book: numbers as they are, and as texts.
local function read_heads(book)
  local numbers, fields = {}, {}
  for member in gmatch(book.heads, '(%d+) %-?%d+') do
    local number = tonumber(member)
    numbers[#numbers + 1], fields[#fields + 1] = number, base.digits(number)
  end
  book.numbers, book.fields = numbers, fields
  return fields
end

local function forget_heads(book)
  book.heads, book.taken, book.numbers, book.fields = '', 0, false, false
end

-- Let all of them stand in the order; return it.
function holding.leave(session, book)
  local order, nth = orders.at('held:' .. session), 0
  for member, place in gmatch(book.heads, '(%d+) (%-?%d+)') do
    nth = nth + 1
    if nth > book.taken then
      order:put(tonumber(place), tonumber(member))
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
    local number, place = order:take()
    page = {base.member(number), base.digits(place)}
  end
  book.heads, book.taken = table.concat(page, ' '), 0
  local numbers, fields, digits, most = {}, {}, 1, 10
  for i = 1, #page, 2 do
    local number, nth = page[i] + 0, (i + 1) / 2  -- Lua reads it as a number, without a call
    while number >= most do
      digits, most = digits + 1, 10 * most
    end
    numbers[nth], fields[nth] = number, sub(page[i], -(number < most / 10 and #base.digits(number) or digits))
  end
  book.numbers, book.fields = numbers, fields
  return fields
end

-- Put a run behind its session, at that place.
function holding.put(run, place)
  local book = sessions.get(run.session)
  run.shelf = 'held'
  if place > 0 then  -- it is the last
    orders.at('held:' .. run.session):put(place, run.number)
  else
    holding.leave(run.session, book):put(place, run.number)
  end
end

-- Take the first; return its number, and that as text.
function holding.take(session, book)
  local fields, taken = book.fields or holding.first(session, book), book.taken + 1
  local number, field = book.numbers[taken], fields[taken]
  book.taken = taken
  if not fields[taken + 1] then
    forget_heads(book)
  end
  return number, field
end

-- Return the numbers of the first, as texts, those behind `book.taken`.
function holding.first(session, book)
  return book.fields or (book.heads == '' and fill_heads(session, book)) or read_heads(book)
end

-- Return the place of a run that is held.
function holding.place_of(run)
  local place = match(sessions.get(run.session).heads, base.member(run.number) .. ' (%-?%d+)')
  return tonumber(place or call('ZSCORE', PREFIX .. 'held:' .. run.session, base.member(run.number)) or 0)
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
