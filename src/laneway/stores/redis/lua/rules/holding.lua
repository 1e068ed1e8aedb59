-- needs: runtime/base, runtime/cached_zset, state/records, state/runs, state/sessions
-- Runs of a session that wait to be admitted, by place: sorted set `held:<session>`, but for the first of them. Those stand
-- in the session's book (`heads`), as text: number and score, the next number, a space behind each; the first bytes of it
-- may be of some that are held no more (`taken`). So a session that holds few has no set at all, and what lets the next
-- one in needs no call but every twelfth time.
--
-- A score is SCALE times the place, and, of those that have come in their turn, a code for the priority. So of a run whose
-- session's book says whose it is (`held_of`), all is known that admits it, and its record is not read.

local holding = {}

local HEADS = 12  -- of them stand in the book at most
local SCALE, LEAST = 256, 101  -- priorities are greater than -LEAST, codes than 0
local NEXT, EACH = '^0*(%d+) (%-?%d+) ', '(%d+) (%-?%d+) '  -- numbers may have zeros in front
holding.SCALE, holding.LEAST, holding.NEXT = SCALE, LEAST, NEXT

-- Forget what stood in the book: nothing of it is held any more.
function holding.forget(book)
  book.heads, book.taken, book.listed, book.tail, book.quick = '', 0, 0, false, false
end

-- Go through those that stand in the book: numbers and scores as texts.
local function each_head(book)
  return gmatch(sub(book.heads, book.taken + 1), EACH)
end

local function count_heads(book)
  local count = 0
  for _ in each_head(book) do
    count = count + 1
  end
  return count
end

-- Let all of them stand in the order; return it.
function holding.leave(session, book)
  local order = cached_zset.at('held:' .. session)
  for member, score in each_head(book) do
    order:put(tonumber(score), tonumber(member))
  end
  holding.forget(book)
  return order
end

-- Let the first of the order stand in the book instead.
local function fill_heads(session, book)
  local order = cached_zset.at('held:' .. session)
  local page = order:take_page(HEADS)
  if not page then
    local number, score = order:take()
    page = {base.digits(number), base.digits(score)}
  end
  book.heads, book.taken, book.listed = table.concat(page, ' ') .. ' ', 0, #page / 2
  book.tail, book.quick = false, false
end

-- Put a run that comes in its turn behind its session: into the book if it has room and all others stand there.
local function put_last(run, book, score)
  local listed = book.listed or count_heads(book)
  if listed < HEADS and listed + 1 == book.held then
    book.heads = sub(book.heads, book.taken + 1) .. base.digits(run.number) .. ' ' .. base.digits(score) .. ' '
    book.taken, book.listed = 0, listed + 1
  else
    book.listed = listed
    cached_zset.at('held:' .. run.session):put(score, run.number)
  end
end

-- Put a run behind its session, which counts it already, at that place.
function holding.put(run, place)
  local book = sessions.get(run.session)
  local key = place > 0 and run.state == 'pending' and run.kind == 0 and records.key_of(records.whose_of(run.whose))
  if not key or (book.held > 1 and book.held_of ~= key) then
    key = sessions.NOBODY
  end
  run.shelf, book.held_of = 'held', key
  if place > 0 then
    put_last(run, book, SCALE * place + LEAST + run.priority)
  else
    holding.leave(run.session, book):put(SCALE * place, run.number)
  end
end

-- Take the first; return its number, that as text, and its priority, which holds if the book says whose it is.
function holding.take(session, book)
  if book.heads == '' then
    fill_heads(session, book)
  end
  local _, last, field, score = find(book.heads, NEXT, book.taken + 1)
  if last < #book.heads then
    book.taken, book.listed = last, book.listed and book.listed - 1
  else
    holding.forget(book)
  end
  return field + 0, field, score % SCALE - LEAST
end

-- Return the number of the first, as text.
function holding.first(session, book)
  if book.heads == '' then
    fill_heads(session, book)
  end
  return match(book.heads, NEXT, book.taken + 1)
end

-- Tell whether a run stands in the book; return its score, as text, if so.
function holding.score_of(book, number)
  for member, score in each_head(book) do
    if tonumber(member) == number then
      return score
    end
  end
  return nil
end

-- Return the place of a run that is held.
function holding.place_of(run)
  local score = holding.score_of(sessions.get(run.session), run.number)
  return holding.place_at(score or call('ZSCORE', PREFIX .. 'held:' .. run.session, base.member(run.number)) or 0)
end

-- Return the place that a score tells, given as text.
function holding.place_at(score)
  return math.floor(tonumber(score) / SCALE)
end

-- Return the runs that a session holds back, in order.
function holding.all(session)
  local numbers = {}
  for member in each_head(sessions.get(session)) do
    numbers[#numbers + 1] = tonumber(member)
  end
  for _, number in ipairs(cached_zset.at('held:' .. session):all()) do
    numbers[#numbers + 1] = number
  end
  return runs.all_of(numbers)
end
