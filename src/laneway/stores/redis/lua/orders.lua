-- needs: base
-- Orders: sorted sets of runs by rank, over which a script takes and puts, and which it writes at the end.

local orders = {}
local FIRST_PAGE, PAGE = 4, 256  -- most want the first alone; who goes on wants more and more
local NONE = {}  -- never written to
local Order = {
  page = NONE,  -- what was read of the sorted set: members and ranks, in turns
  at = 1,  -- the first of the page that is not looked at yet
  read = 0,  -- how many of the set were read
  passed = 0,  -- how many of these were looked at
  ranks = NONE, numbers = NONE,  -- what was put since, sorted
  gone = NONE,  -- members of the set that were taken out
  gone_count = 0,
  wanted = false,  -- how many to read at first, if somebody has said so
  front = 0,  -- how many of the set were taken out from its front, before all others
}
Order.__index = Order
local kept_orders = {}

base.at_begin(function()
  kept_orders = {}
end)

-- Return the order under that key (without the prefix).
function orders.at(name)
  local order = kept_orders[name]
  if not order then
    order = setmetatable({
      key = PREFIX .. name,
      rest = not base.is_absent(name),  -- there may be more in the set
    }, Order)
    kept_orders[name] = order
    kept_orders[#kept_orders + 1] = order
  end
  return order
end

-- Tell whether this call has asked for the order of that key.
function orders.is_known(name)
  return kept_orders[name] ~= nil
end

-- Return the place of a run among those that were put: behind all that come before it.
local function place_of(ranks, numbers, rank, number)
  local low, high = 1, #ranks + 1
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    local other = ranks[middle]
    if rank < other or (rank == other and number < numbers[middle]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

function Order:put(rank, number)
  local ranks, numbers = self.ranks, self.numbers
  if ranks == NONE then
    self.ranks, self.numbers = {rank}, {number}
    return
  end
  local place = place_of(ranks, numbers, rank, number)
  table.insert(ranks, place, rank)
  table.insert(numbers, place, number)
end

-- Make the page begin with a member that is still there, and return it; read on where it has ended.
function Order:settle()
  while true do
    local member = self.page[self.at]
    if not member then
      if not self.rest then
        return nil
      end
      local size = self.read == 0 and (self.wanted or FIRST_PAGE) or math.min(PAGE, 8 * self.read)
      local page = call('ZRANGE', self.key, self.read, self.read + size - 1, 'WITHSCORES')
      self.page, self.at, self.read = page, 1, self.read + size
      self.rest = #page == 2 * size
    elseif self.gone[member] then
      self.at, self.passed = self.at + 2, self.passed + 1
    else
      return member
    end
  end
end

-- Return the numbers of up to `count` of those that were read and not taken yet, for who wants to read ahead.
function Order:coming(count)
  local found = {}
  self.wanted = math.max(self.wanted or 1, math.min(count, PAGE))
  if self:settle() then
    local page, last = self.page, math.min(#self.page, self.at + 2 * count - 2)
    for i = self.at, last, 2 do
      found[#found + 1] = tonumber(page[i])
    end
  end
  return found
end

-- Return members and ranks, in turns, up to `count` of them from the front, and where in the list they begin, for
-- `drop_front`; nil if there are none, or something was put or taken.
function Order:front_page(count)
  self.wanted = self.wanted or math.max(FIRST_PAGE, math.min(count, PAGE))
  if #self.ranks == 0 and self.gone_count == 0 and self:settle() then
    return self.page, self.at
  end
  return nil
end

-- Take out the first so many of those.
function Order:drop_front(count)
  self.front, self.passed, self.at = self.front + count, self.passed + count, self.at + 2 * count
end

-- Return the rank and the number of the first, and whether it was put by this call; nil if there is none.
function Order:first()
  local member, rank, number = self:settle(), self.ranks[1], self.numbers[1]
  if not member then
    return rank, number, rank ~= nil
  end
  local other_rank, other = tonumber(self.page[self.at + 1]), tonumber(member)
  if rank and (rank < other_rank or (rank == other_rank and number < other)) then
    return rank, number, true
  end
  return other_rank, other, false
end

-- Take the first; return its number and its rank.
function Order:take()
  local rank, number, is_new = self:first()
  if is_new then
    table.remove(self.ranks, 1)
    table.remove(self.numbers, 1)
  elseif rank and self.passed == self.front then
    self:drop_front(1)
  elseif rank then
    self:forget(self.page[self.at])
    self.at, self.passed = self.at + 2, self.passed + 1
  end
  return number, rank
end

function Order:forget(member)
  if self.gone == NONE then
    self.gone = {}
  end
  self.gone[member] = true
  self.gone_count = self.gone_count + 1
end

-- Take a run out, wherever it stands.
function Order:remove(number)
  for i = 1, #self.numbers do
    if self.numbers[i] == number then
      table.remove(self.ranks, i)
      table.remove(self.numbers, i)
      return
    end
  end
  self:forget(base.member(number))
end

function Order:size()
  return call('ZCARD', self.key) - self.front - self.gone_count + #self.ranks
end

function Order:is_empty()
  return self.ranks[1] == nil and self:settle() == nil
end

-- Go through the numbers in order, until `visit` returns true.
function Order:each(visit)
  local place, first, ranks, numbers = 1, self.front, self.ranks, self.numbers
  while true do
    local page = call('ZRANGE', self.key, first, first + PAGE - 1, 'WITHSCORES')
    for i = 1, #page, 2 do
      local number, rank = tonumber(page[i]), tonumber(page[i + 1])
      while ranks[place] and (ranks[place] < rank or (ranks[place] == rank and numbers[place] < number)) do
        place = place + 1
        if visit(numbers[place - 1]) then
          return
        end
      end
      if not self.gone[page[i]] and visit(number) then
        return
      end
    end
    first = first + PAGE
    if #page < 2 * PAGE then
      break
    end
  end
  for i = place, #numbers do
    if visit(numbers[i]) then
      return
    end
  end
end

-- Return the numbers of all, in order.
function Order:all()
  local found = {}
  self:each(function(number)
    found[#found + 1] = number
  end)
  return found
end

-- Write what was taken out one by one, but for what was put again: the new rank is written over the old one.
local function write_gone(order)
  local gone, stays = {}, {}
  for i = 1, #order.numbers do
    stays[base.member(order.numbers[i])] = true
  end
  for member in pairs(order.gone) do
    if not stays[member] then
      gone[#gone + 1] = member
    end
  end
  base.send('ZREM', order.key, gone)
end

base.at_end(function()
  for i = 1, #kept_orders do
    local order = kept_orders[i]
    if order.front > 0 then
      call('ZREMRANGEBYRANK', order.key, 0, order.front - 1)
    end
    if order.gone_count > 0 then
      write_gone(order)
    end
    local ranks, numbers = order.ranks, order.numbers
    if #ranks > 0 then
      local puts = {}
      for j = 1, #ranks do
        puts[2 * j - 1], puts[2 * j] = ranks[j], base.member(numbers[j])
      end
      base.send('ZADD', order.key, puts)
    end
  end
end)
