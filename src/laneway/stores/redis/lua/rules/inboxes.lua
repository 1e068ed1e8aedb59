-- needs: runtime/base, runtime/cached_hash, state/runs, state/new_runs, state/logs, state/lanes, rules/queue/sessions
-- needs: rules/queue/admission
-- Messages: submissions that another run took, and what becomes of those that it never reads.
--
-- List `taken:<number>`: the messages of a run in the order in which they came, each packed: {id, kind, nth, task,
-- args, lane, user, priority, key}, where `key` is a field of hash `keys`. Hash `takers`: message id -> {number, kind,
-- lane} of the run that took it. Hash `keys`: idempotency key -> {run_id, number, digest, at}.

local inboxes = {}
local takers = cached_hash.at('takers')
local keys = cached_hash.at('keys')
local new_messages = {}  -- by number: packed, to be appended

base.at_begin(function()
  new_messages = {}
end)

-- Return which run took the message with this id, nil if none did.
function inboxes.taker(id)
  return takers:find(id)
end

-- Return the field of hash `keys` for a key.
function inboxes.key_field(task, user, key)
  return task .. '\n' .. (user and '=' .. user or '') .. '\n' .. key
end

-- Return the entry of a submission's key.
function inboxes.key(new)
  return keys:find(inboxes.key_field(new.task, new.user, new.key))
end

-- Let the submission's key, if it has one, stand for this run.
function inboxes.remember(new, run)
  if new.key then
    local field = inboxes.key_field(new.task, new.user, new.key)
    keys:put(field, {run.id, run.number, new.digest, NOW})
    run.keyed = run.keyed or {}
    run.keyed[#run.keyed + 1] = field
  end
end

-- Delete the keys of a run that is dropped.
function inboxes.forget_keys(run)
  for _, field in ipairs(run.keyed or {}) do
    keys:drop(field)
  end
end

-- Let the key of an unread message stand for the run that the message becomes; delete it if it becomes none.
local function pass_key(message, from, to)
  local field = message[9]
  local entry = field and keys:find(field)
  if not entry or entry[2] ~= from.number then
    return
  end
  base.remove_from(from.keyed or {}, field)
  if to then
    keys:put(field, {to.id, to.number, entry[3], entry[4]})
    to.keyed = to.keyed or {}
    to.keyed[#to.keyed + 1] = field
  else
    keys:drop(field)
  end
end

local function add(run, message)
  local kind = message[2]
  run[kind] = (run[kind] or 0) + 1
  run.messages = (run.messages or 0) + 1
  local added = {
    message[1], kind, run[kind], message[4], message[5], message[6], message[7], message[8], message[9],
  }
  local list = new_messages[run.number] or {}
  new_messages[run.number] = list
  list[#list + 1] = pack(added)
  if kind ~= 'answered' then
    logs.write(run, {logs.draft(kind, 'message', message[1], 'nth', run[kind])})
  end
end

-- Return all messages of a run, in the order in which they came.
local function taken(run)
  local found = {}
  if run.messages then
    for _, text in ipairs(call('LRANGE', PREFIX .. 'taken:' .. base.digits(run.number), 0, -1)) do
      found[#found + 1] = unpacked(text)
    end
    for _, text in ipairs(new_messages[run.number] or {}) do
      found[#found + 1] = unpacked(text)
    end
  end
  return found
end

-- Let the run take a message: `kind` is merged, steered or answered.
function inboxes.append(run, new, lane, kind)
  takers:put(new.id, {run.number, kind, lane})
  local field = new.key and inboxes.key_field(new.task, new.user, new.key) or false
  add(run, {new.id, kind, 0, new.task, new.args, lane, new.user or false, new.priority, field})
end

-- Merge into a run the messages that were merged into the run that it tries again, if that still exists.
function inboxes.inherit(run, from_id)
  local old = runs.named(from_id)
  for _, message in ipairs(old and taken(old) or {}) do
    if message[2] == 'merged' then
      add(run, message)
    end
  end
end

-- Close the inbox of a run that has ended: unread messages become runs, one per task and user, or are dropped with it.
function inboxes.close(run)
  local groups, by_sender, nth = {}, {}, 0
  for _, message in ipairs(taken(run)) do
    if message[2] == 'steered' then
      nth = nth + 1
      if nth > (run.read or 0) then
        if run.cleared then
          base.count('counts:' .. message[6], 'dropped unread', 1)
          pass_key(message, run, nil)
        else
          local sender = message[4] .. '\n' .. (message[7] and '=' .. message[7] or '')
          local group = by_sender[sender]
          if not group then
            group = {}
            by_sender[sender] = group
            groups[#groups + 1] = group
          end
          group[#group + 1] = message
        end
      end
    end
  end
  for _, group in ipairs(groups) do
    local first = group[1]
    local made = new_runs.make({
      id = first[1], task = first[4], args = first[5], user = first[7], session = run.session, priority = first[8],
    }, first[6], NOW)
    local book = lanes.get(first[6])
    book.pending = book.pending + 1
    for i = 2, #group do
      local message = group[i]
      message[2] = 'merged'
      add(made, message)
    end
    for i = 1, #group do
      pass_key(group[i], run, made)
    end
    admission.join(made)
  end
end

base.at_end(function()
  for number, list in pairs(new_messages) do
    base.send('RPUSH', PREFIX .. 'taken:' .. base.digits(number), list)
  end
end)
