-- needs: runtime/base
-- Sorted sets of runs by rank: a script takes from them and puts into them; they are written at the end of the call.

local cached_zset = {}
local FIRST_PAGE, PAGE = 4, 256  -- most want the first alone; who goes on wants more and more
local NONE = {}  -- never written to
local CachedZset = {
  page = NONE,  -- what was read of the sorted set: members and ranks, in turns
  at = 1,  -- the first of the page that is not looked at yet
  read = 0,  -- how many of the set were read
  passed = 0,  -- how many of these were looked at
  ranks = NONE, numbers = NONE,  -- what was put since, as it came
  left = 0,  -- how many of these were not taken again
  lists = false,  -- instead, once somebody has asked for the first: by rank, numbers from `at` on, in order if `sorted`
  steps = NONE,  -- the ranks of which there are such lists, the first at the end
  gone = NONE,  -- members of the set that were taken out
  gone_count = 0,
  wanted = false,  -- how many to read at first, if somebody has said so
  front = 0,  -- how many of the set were taken out from its front, before all others
}
CachedZset.__index = CachedZset
local kept_orders = {}

base.at_begin(function()
  kept_orders = {}
end)

-- Return the order under that key (without the prefix).
function cached_zset.at(name)
  local order = kept_orders[name]
  if not order then
    order = setmetatable({
      key = PREFIX .. name,
      rest = not base.is_absent(name),  -- there may be more in the set
    }, CachedZset)
    kept_orders[name] = order
    kept_orders[#kept_orders + 1] = order
  end
  return order
end

-- Tell whether this call has asked for the order of that key.
function cached_zset.is_known(name)
  return kept_orders[name] ~= nil
end

local function add_step(steps, rank)
  local at = #steps + 1
  while at > 1 and steps[at - 1] < rank do
    steps[at] = steps[at - 1]
    at = at - 1
  end
  steps[at] = rank
end

local function add_to(lists, steps, rank, number)
  local list = lists[rank]
  if list then
    local last = list.last
    list[last + 1], list.last = number, last + 1
    if list[last] > number then
      list.sorted = false
    end
  else
    lists[rank] = {number, at = 1, last = 1, sorted = true}
    add_step(steps, rank)
  end
end

function CachedZset:put(rank, number)
  local left, lists = self.left, self.lists
  self.left = left + 1
  if lists then
    add_to(lists, self.steps, rank, number)
  elseif left == 0 then
    self.ranks, self.numbers = {rank}, {number}
  else
    self.ranks[left + 1], self.numbers[left + 1] = rank, number
  end
end

-- Put what has come into lists: who only puts needs none.
function CachedZset:arrange()
  local ranks, numbers, steps, lists = self.ranks, self.numbers, {}, {}
  for i = 1, #ranks do
    add_to(lists, steps, ranks[i], numbers[i])
  end
  self.steps, self.lists, self.ranks, self.numbers = steps, lists, NONE, NONE
  return lists
end

-- Return the rank of the first that was put, and the list in which it stands; nil if there is none.
function CachedZset:first_put()
  if self.left == 0 then
    return nil
  end
  local lists, steps = self.lists or self:arrange(), self.steps
  local rank = steps[#steps]
  local list = lists[rank]
  if not list.sorted then
    local at, last = list.at, list.last
    if at > 1 then
      list = {unpack(list, at, last)}
      list.at, list.last, lists[rank] = 1, last - at + 1, list
    end
    table.sort(list)
    list.sorted = true
  end
  return rank, list
end

-- Take the first that was put, of which `first_put` has told.
function CachedZset:take_put(rank, list)
  local at = list.at
  self.left = self.left - 1
  if at < list.last then
    list.at = at + 1
  else
    self.lists[rank], self.steps[#self.steps] = nil, nil
  end
end

-- Return ranks and numbers of what was put and is there still, as it comes.
function CachedZset:puts()
  if not self.lists then
    return self.ranks, self.numbers
  end
  local ranks, numbers = {}, {}
  for rank, list in pairs(self.lists) do
    for at = list.at, list.last do
      ranks[#ranks + 1], numbers[#numbers + 1] = rank, list[at]
    end
  end
  return ranks, numbers
end

-- Return the same in order.
function CachedZset:sorted()
  local places, ranks, numbers, old_ranks, old_numbers = {}, {}, {}, self:puts()
  for i = 1, #old_ranks do
    places[i] = i
  end
  table.sort(places, function(one, other)
    local rank, other_rank = old_ranks[one], old_ranks[other]
    return rank < other_rank or (rank == other_rank and old_numbers[one] < old_numbers[other])
  end)
  for i, place in ipairs(places) do
    ranks[i], numbers[i] = old_ranks[place], old_numbers[place]
  end
  return ranks, numbers
end

-- Make the page begin with a member that is still there, and return it; read on where it has ended.
function CachedZset:settle()
  while true do
    local member = self.page[self.at]
    if not member then
      if not self.rest then
        return nil
      end
      local size = self.read == 0 and (self.wanted or FIRST_PAGE) or min(PAGE, 8 * self.read)
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

-- Add to `fields` the numbers, as texts, of up to `count` of those that come next, for who wants to read ahead.
function CachedZset:coming(count, fields)
  self.wanted = max(self.wanted or 1, min(count, PAGE))
  if self:settle() then
    local page, last = self.page, min(#self.page, self.at + 2 * count - 2)
    for i = self.at, last, 2 do
      fields[#fields + 1] = match(page[i], '[1-9]%d*')
    end
  end
  local _, numbers = self:puts()
  for i = 1, min(#numbers, count) do
    fields[#fields + 1] = base.digits(numbers[i])
  end
end

-- Return the rank and the number of the first, and, if it was put by this call, the list of `take_put`; nil if there is
-- none.
function CachedZset:first()
  local rank, list = self:first_put()
  local member = self.page[self.at]
  if self.gone_count > 0 or (not member and self.rest) then
    member = self:settle()
  end
  local number = list and list[list.at]
  if not member then
    return rank, number, list
  end
  local other_rank, other = tonumber(self.page[self.at + 1]), tonumber(member)
  if rank and (rank < other_rank or (rank == other_rank and number < other)) then
    return rank, number, list
  end
  return other_rank, other, nil
end

-- Take the first; return its number and its rank.
function CachedZset:take()
  local rank, number, list = self:first()
  if list then
    self:take_put(rank, list)
  elseif rank then
    self:take_member()
  end
  return number, rank
end

-- Take the first of the set, of which `first` has told.
function CachedZset:take_member()
  if self.passed == self.front then
    self.front, self.passed, self.at = self.front + 1, self.passed + 1, self.at + 2
  else
    self:forget(self.page[self.at])
    self.at, self.passed = self.at + 2, self.passed + 1
  end
end

function CachedZset:forget(member)
  if self.gone == NONE then
    self.gone = {}
  end
  self.gone[member] = true
  self.gone_count = self.gone_count + 1
end

-- Take a run out, wherever it stands.
function CachedZset:remove(number)
  local ranks, numbers = self:puts()
  local at = base.index_of(numbers, number)
  if at then
    table.remove(ranks, at)
    table.remove(numbers, at)
    self.ranks, self.numbers, self.lists, self.left = ranks, numbers, false, #ranks
  else
    self:forget(base.member(number))
  end
end

function CachedZset:size()
  return call('ZCARD', self.key) - self.front - self.gone_count + self.left
end

function CachedZset:is_empty()
  return self.left == 0 and self:settle() == nil
end

-- Go through the numbers in order, until `visit` returns true.
function CachedZset:each(visit)
  local place, first, ranks, numbers = 1, self.front, self:sorted()
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
function CachedZset:all()
  local found = {}
  self:each(function(number)
    found[#found + 1] = number
  end)
  return found
end

-- Write what was taken out one by one, but for what was put again: the new rank is written over the old one.
local function write_gone(order, numbers)
  local gone, stays = {}, {}
  for i = 1, #numbers do
    stays[base.member(numbers[i])] = true
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
    local ranks, numbers = order:puts()
    if order.front > 0 then
      call('ZREMRANGEBYRANK', order.key, 0, order.front - 1)
    end
    if order.gone_count > 0 then
      write_gone(order, numbers)
    end
    if #ranks > 0 then
      local puts = {}
      for j = 1, #ranks do
        puts[2 * j - 1], puts[2 * j] = ranks[j], base.member(numbers[j])
      end
      base.send('ZADD', order.key, puts)
    end
  end
end)
