-- needs: runtime/base
-- A cache of sorted sets of runs by rank: a script takes runs from them and puts runs into them; the flush writes both.
--
-- Runs that this call puts are kept apart from the pages that it has read: first as two plain lists, because most calls
-- only put; as lists by rank once somebody needs the first of them.

local cached_zset = {}
local FIRST_PAGE, PAGE = 4, 256  -- most calls need the first run only; each further page is eight times as long
local NONE = {}  -- never written to
local CachedZset = {
  page = NONE,  -- what was read last: members and ranks in turn
  at = 1,  -- where in the page the next member is
  read = 0,  -- members read so far
  passed = 0,  -- of these, the ones before `at`
  has_more = false,  -- there may be members behind the page
  wanted = false,  -- how many to read first, if a caller knows
  front = 0,  -- members removed from the front, before all others
  removed = NONE,  -- members removed elsewhere; a table of trues
  removed_count = 0,
  ranks = NONE, numbers = NONE,  -- runs put by this call, unordered
  put_count = 0,  -- how many of them are still there
  lists = false,  -- instead, in order: by rank, the numbers from `at` on
  steps = NONE,  -- the ranks of these lists, the smallest at the end
}
CachedZset.__index = CachedZset
local caches = {}  -- by name, and as a list

base.at_begin(function()
  caches = {}
end)

-- Return the sorted set of that name (the key without the prefix).
function cached_zset.at(name)
  local zset = caches[name]
  if not zset then
    zset = setmetatable({key = PREFIX .. name, has_more = not base.is_absent(name)}, CachedZset)
    caches[name] = zset
    caches[#caches + 1] = zset
  end
  return zset
end

-- Return whether this call has used the sorted set of that name.
function cached_zset.is_known(name)
  return caches[name] ~= nil
end

-- Runs that this call puts ----------------------------------------------------------------------------------------

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
      list.is_sorted = false
    end
  else
    lists[rank] = {number, at = 1, last = 1, is_sorted = true}
    add_step(steps, rank)
  end
end

function CachedZset:put(rank, number)
  local count, lists = self.put_count, self.lists
  self.put_count = count + 1
  if lists then
    add_to(lists, self.steps, rank, number)
  elseif count == 0 then
    self.ranks, self.numbers = {rank}, {number}
  else
    self.ranks[count + 1], self.numbers[count + 1] = rank, number
  end
end

function CachedZset:make_lists()
  local ranks, numbers, steps, lists = self.ranks, self.numbers, {}, {}
  for i = 1, #ranks do
    add_to(lists, steps, ranks[i], numbers[i])
  end
  self.steps, self.lists, self.ranks, self.numbers = steps, lists, NONE, NONE
  return lists
end

-- Return the rank of the first run that was put, and its list; nil if there is none.
function CachedZset:first_put()
  if self.put_count == 0 then
    return nil
  end
  local lists, steps = self.lists or self:make_lists(), self.steps
  local rank = steps[#steps]
  local list = lists[rank]
  if not list.is_sorted then
    local at, last = list.at, list.last
    if at > 1 then
      list = {unpack(list, at, last)}
      list.at, list.last, lists[rank] = 1, last - at + 1, list
    end
    table.sort(list)
    list.is_sorted = true
  end
  return rank, list
end

-- Take the run that `first_put` returned.
function CachedZset:take_put(rank, list)
  local at = list.at
  self.put_count = self.put_count - 1
  if at < list.last then
    list.at = at + 1
  else
    self.lists[rank], self.steps[#self.steps] = nil, nil
  end
end

-- Return ranks and numbers of the runs that were put and are still there, unordered.
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
function CachedZset:sorted_puts()
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

-- The first, of both ----------------------------------------------------------------------------------------------

-- Move `at` to the next member that is still there, reading another page if needed; return the member, nil at the end.
function CachedZset:next_member()
  while true do
    local member = self.page[self.at]
    if not member then
      if not self.has_more then
        return nil
      end
      local size = self.read == 0 and (self.wanted or FIRST_PAGE) or min(PAGE, 8 * self.read)
      local page = call('ZRANGE', self.key, self.read, self.read + size - 1, 'WITHSCORES')
      self.page, self.at, self.read = page, 1, self.read + size
      self.has_more = #page == 2 * size
    elseif self.removed[member] then
      self.at, self.passed = self.at + 2, self.passed + 1
    else
      return member
    end
  end
end

-- Add the numbers of the next runs, up to `count` of either kind, to `fields` as texts: a caller wants to prefetch
-- them.
function CachedZset:add_next(count, fields)
  self.wanted = max(self.wanted or 1, min(count, PAGE))
  if self:next_member() then
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

-- Return rank and number of the first run, nil if there is none; also, if this call has put it, the list that
-- `take_put` needs.
function CachedZset:first()
  local rank, list = self:first_put()
  local member = self.page[self.at]
  if self.removed_count > 0 or (not member and self.has_more) then
    member = self:next_member()
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

-- Take the first run; return its number and its rank.
function CachedZset:take()
  local rank, number, list = self:first()
  if list then
    self:take_put(rank, list)
  elseif rank then
    self:take_member()
  end
  return number, rank
end

-- Take the member that `first` returned.
function CachedZset:take_member()
  if self.passed == self.front then
    self.front, self.passed, self.at = self.front + 1, self.passed + 1, self.at + 2
  else
    self:mark_removed(self.page[self.at])
    self.at, self.passed = self.at + 2, self.passed + 1
  end
end

function CachedZset:mark_removed(member)
  if self.removed == NONE then
    self.removed = {}
  end
  self.removed[member] = true
  self.removed_count = self.removed_count + 1
end

-- Remove a run, wherever it is.
function CachedZset:remove(number)
  local ranks, numbers = self:puts()
  local at = base.index_of(numbers, number)
  if at then
    table.remove(ranks, at)
    table.remove(numbers, at)
    self.ranks, self.numbers, self.lists, self.put_count = ranks, numbers, false, #ranks
  else
    self:mark_removed(base.member(number))
  end
end

function CachedZset:is_empty()
  return self.put_count == 0 and self:next_member() == nil
end

-- Call `visit` with each number in order, until it returns true.
function CachedZset:each(visit)
  local place, first, ranks, numbers = 1, self.front, self:sorted_puts()
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
      if not self.removed[page[i]] and visit(number) then
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

-- Return all numbers in order.
function CachedZset:all()
  local found = {}
  self:each(function(number)
    found[#found + 1] = number
  end)
  return found
end

-- Writing ---------------------------------------------------------------------------------------------------------

-- Remove members one by one, but not those that were put again: ZADD replaces their ranks.
local function write_removed(zset, put_numbers)
  local removed, stays = {}, {}
  for i = 1, #put_numbers do
    stays[base.member(put_numbers[i])] = true
  end
  for member in pairs(zset.removed) do
    if not stays[member] then
      removed[#removed + 1] = member
    end
  end
  base.send('ZREM', zset.key, removed)
end

base.at_end(function()
  for i = 1, #caches do
    local zset = caches[i]
    local ranks, numbers = zset:puts()
    if zset.front > 0 then
      call('ZREMRANGEBYRANK', zset.key, 0, zset.front - 1)
    end
    if zset.removed_count > 0 then
      write_removed(zset, numbers)
    end
    if #ranks > 0 then
      local puts = {}
      for j = 1, #ranks do
        puts[2 * j - 1], puts[2 * j] = ranks[j], base.member(numbers[j])
      end
      base.send('ZADD', zset.key, puts)
    end
  end
end)
