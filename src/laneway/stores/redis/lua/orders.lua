-- needs: base
-- Orders: sorted sets of runs by rank, over which a script takes and puts, and which it writes at the end.

local orders = {}
local FIRST_PAGE, PAGE = 4, 256  -- most want the first alone; who goes on wants more and more
local Order = {}
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
      name = name,
      key = PREFIX .. name,
      page = {},  -- what was read of the sorted set: members and ranks, in turns
      at = 1,  -- the first of the page that is not looked at yet
      read = 0,  -- how many of the set were read
      rest = not base.is_absent(name),  -- there may be more in the set
      fresh = {},  -- what was put since: {rank, member}, sorted
      gone = {},  -- members of the set that were taken out
      gone_count = 0,
      wanted = false,  -- how many to read at first, if somebody has said so
      front = 0,  -- how many of the set were taken out from its front, before all others
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

local function before(rank, member, other_rank, other_member)
  return rank < other_rank or (rank == other_rank and member < other_member)
end

function Order:put(rank, number)
  local member, fresh = base.member(number), self.fresh
  local low, high = 1, #fresh + 1
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    local other = fresh[middle]
    if rank < other[1] or (rank == other[1] and member < other[2]) then
      high = middle
    else
      low = middle + 1
    end
  end
  table.insert(fresh, low, {rank, member})
end

-- Make the page begin with a member that is still there; read on where it has ended.
function Order:settle()
  local page, gone = self.page, self.gone
  while true do
    local member = page[self.at]
    if not member then
      if not self.rest then
        return nil
      end
      local size = self.read == 0 and (self.wanted or FIRST_PAGE) or math.min(PAGE, 8 * self.read)
      page = call('ZRANGE', self.key, self.read, self.read + size - 1, 'WITHSCORES')
      self.page, self.at, self.read = page, 1, self.read + size
      self.rest = #page == 2 * size
    elseif gone[member] then
      self.at = self.at + 2
    else
      return member
    end
  end
end

-- Return the numbers of up to `count` of those that were read and not taken yet, for who wants to read ahead.
function Order:coming(count)
  local found = {}
  self.wanted = math.max(FIRST_PAGE, math.min(count, PAGE))
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
  if #self.fresh == 0 and self.gone_count == 0 and self:settle() then
    return self.page, self.at
  end
  return nil
end

-- Take out the first so many of those.
function Order:drop_front(count)
  self.front, self.at = self.front + count, self.at + 2 * count
end

-- Return the rank and the number of the first, without taking it.
function Order:first()
  local member, fresh = self:settle(), self.fresh[1]
  local rank = member and tonumber(self.page[self.at + 1])
  if fresh and (not member or before(fresh[1], fresh[2], rank, member)) then
    rank, member = fresh[1], fresh[2]
  end
  if member then
    return rank, tonumber(member)
  end
  return nil
end

-- Take the first; return its number.
function Order:take()
  local member, fresh = self:settle(), self.fresh[1]
  if fresh and (not member or before(fresh[1], fresh[2], tonumber(self.page[self.at + 1]), member)) then
    table.remove(self.fresh, 1)
    return tonumber(fresh[2])
  end
  if not member then
    return nil
  end
  self:forget(member)
  self.at = self.at + 2
  return tonumber(member)
end

function Order:forget(member)
  self.gone[member] = true
  self.gone_count = self.gone_count + 1
end

-- Take a run out, wherever it stands.
function Order:remove(number)
  local member = base.member(number)
  for i = 1, #self.fresh do
    if self.fresh[i][2] == member then
      table.remove(self.fresh, i)
      return
    end
  end
  self:forget(member)
end

function Order:size()
  return call('ZCARD', self.key) - self.front - self.gone_count + #self.fresh
end

function Order:is_empty()
  return self:first() == nil
end

-- Go through the numbers in order, until `visit` returns true.
function Order:each(visit)
  local fresh, first = 1, self.front
  while true do
    local page = call('ZRANGE', self.key, first, first + 255, 'WITHSCORES')
    for i = 1, #page, 2 do
      local rank = tonumber(page[i + 1])
      while self.fresh[fresh] and before(self.fresh[fresh][1], self.fresh[fresh][2], rank, page[i]) do
        fresh = fresh + 1
        if visit(tonumber(self.fresh[fresh - 1][2])) then
          return
        end
      end
      if not self.gone[page[i]] and visit(tonumber(page[i])) then
        return
      end
    end
    first = first + 256
    if #page < 512 then
      break
    end
  end
  for i = fresh, #self.fresh do
    if visit(tonumber(self.fresh[i][2])) then
      return
    end
  end
end

-- Return the numbers of all, in order.
function Order:numbers()
  local found = {}
  self:each(function(number)
    found[#found + 1] = number
  end)
  return found
end

base.at_end(function()
  for i = 1, #kept_orders do
    local order = kept_orders[i]
    if order.front > 0 then
      call('ZREMRANGEBYRANK', order.key, 0, order.front - 1)
    end
    if order.gone_count > 0 then
      local gone, stays = {}, {}
      for j = 1, #order.fresh do
        stays[order.fresh[j][2]] = true  -- taken out and put again: the new rank is written over the old one
      end
      for member in pairs(order.gone) do
        if not stays[member] then
          gone[#gone + 1] = member
        end
      end
      base.send('ZREM', order.key, gone)
    end
    if #order.fresh > 0 then
      local puts = {}
      for j = 1, #order.fresh do
        puts[#puts + 1] = order.fresh[j][1]
        puts[#puts + 1] = order.fresh[j][2]
      end
      base.send('ZADD', order.key, puts)
    end
  end
end)
