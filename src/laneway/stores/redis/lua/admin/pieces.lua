-- needs: runtime/base, runtime/cached_hash, state/run_records, state/runs, state/new_runs, state/logs, state/memos
-- needs: state/lanes, rules/queue/turns, rules/queue/sessions, rules/queue/shelves, rules/inboxes, rules/queue/circuits
-- needs: rules/settings, state/job_records, state/fire_records
-- Packing and unpacking the content of a store for a move, in the form of verbs/move_pack.py. Runs are tables by name,
-- whatever their records look like; a missing value is false.

local pieces = {}

local PLAIN = {
  'number', 'id', 'task', 'lane', 'user', 'session', 'priority', 'state', 'fence', 'attempt', 'crashes', 'accepted_at',
  'due_at', 'started_at', 'ended_at',
}
local RARE = run_records.MOVED
local BESIDE_RUN = {ties = 'ties', error = 'failures', checkpoint = 'saved', prepared = 'prepared'}
local AGAIN = 1

-- Packing ---------------------------------------------------------------------------------------------------------

-- Return the numbers of the next runs, up to so many, in order.
function pieces.numbers(after, limit)
  local blocks, found = {}, {}
  for _, block in ipairs(call('HKEYS', PREFIX .. 'blocks')) do
    if tonumber(block) * 1000 + 999 > after then
      blocks[#blocks + 1] = tonumber(block)
    end
  end
  table.sort(blocks)
  for _, block in ipairs(blocks) do
    local numbers = {}
    for number = max(after + 1, block * 1000), block * 1000 + 999 do
      numbers[#numbers + 1] = number
    end
    for _, run in ipairs(runs.all_of(numbers)) do
      found[#found + 1] = run.number
      if #found == limit then
        return found
      end
    end
  end
  return found
end

local function log_of(run, field)
  if not run.spilled then
    return run.log
  end
  local chunks = {}
  for _, entry in ipairs(call('XRANGE', PREFIX .. 'log:' .. field, '-', '+')) do
    chunks[#chunks + 1] = tonumber(match(entry[1], '^%d+'))
    chunks[#chunks + 1] = entry[2][2]
  end
  return chunks
end

local function taken_by(run, field)
  local found = {}
  for _, text in ipairs(run.messages and call('LRANGE', PREFIX .. 'taken:' .. field, 0, -1) or {}) do
    local message = unpacked(text)
    local taker = inboxes.taker(message[1])
    found[#found + 1] = {message, not (taker and taker[1] == run.number)}
  end
  return found
end

local function unpacked_all(texts)
  local found = {}
  for i = 1, #texts do
    found[i] = unpacked(texts[i])
  end
  return found
end

-- Return a run and all that belongs to it.
function pieces.pack_run(run)
  local field, facts = base.digits(run.number), {}
  for _, name in ipairs(PLAIN) do
    facts[name] = run[name]
  end
  for _, name in ipairs(RARE) do
    facts[name] = run[name]
  end
  for name, hash in pairs(BESIDE_RUN) do
    facts[name] = call('HGET', PREFIX .. hash, field)
  end
  facts.args, facts.result = runs.args(run), runs.result(run)
  facts.log = log_of(run, field)
  facts.memos = unpacked_all(run.memos and call('HVALS', PREFIX .. 'memos:' .. field) or {})
  facts.taken = taken_by(run, field)
  facts.keys = {}
  for _, key in ipairs(run.keyed or {}) do
    local text = call('HGET', PREFIX .. 'keys', key)
    local entry = text and unpacked(text)
    if entry and entry[2] == run.number then
      table.insert(facts.keys, {key, entry[3], entry[4]})
    end
  end
  return facts
end

-- Return the place of a run, {number, shelf, rank, kind, owner, gate, paused}; nil if it is on no shelf.
function pieces.pack_place(run)
  local shelf = run.shelf
  if not shelf or TERMINAL[run.state] or run.state == 'running' then
    return nil
  end
  local owner = run.lane
  if shelf == 'held' or shelf == 'due' then
    owner = run.session
  end
  local gate = shelf == 'parked' and shelves.gate_of(run)
  return {run.number, shelf, shelves.rank_of(run), run.kind, owner, gate, run.state == 'paused'}
end

-- Unpacking -------------------------------------------------------------------------------------------------------

local unpack_piece = {}

function unpack_piece.counters(accepted, jobs_at)
  call_later('HSET', 'counters', 'number', base.digits(accepted), 'jobs_at', base.digits(jobs_at))
end

local declared, ruled = cached_hash.at('declared'), cached_hash.at('ruled')

function unpack_piece.lane(name, holds, code, operator, paused, active, pending, paces, counts)
  if lanes.find(name) then
    return
  end
  local book = {
    name = name, limit = holds[1], per_user = holds[2], worker_limit = holds[3], max_pending = holds[4],
    when_full = holds[5], paused = paused, active = active, pending = pending, paces = {},
  }
  for _, pace in ipairs(paces) do
    book.paces[pace[1]] = {v = pace[2], ready = pace[3], last = 0, waiting = 0}
  end
  lanes.put(name, book)
  if code then
    declared:put(name, code)
  end
  if operator then
    ruled:put(name, operator)
  end
  for _, count in ipairs(counts) do
    base.set_text('counts:' .. name, count[1], base.digits(count[2]))
  end
end

function unpack_piece.cap(user, lane, cap)
  base.set_text('set_caps', lane .. '\n' .. user, base.digits(cap))
  settings.judge_caps(user)
end

function unpack_piece.paused(what, name)
  base.put_in('paused_' .. what .. 's', name, true)
  if what == 'user' then
    settings.judge_caps(name)
  end
end

function unpack_piece.disabled(task)
  base.put_in('disabled', task, true)
end

function unpack_piece.sessionrule(name, rule)
  cached_hash.at('session_rules'):put(name, rule)
end

function unpack_piece.circuit(key, failures, till)
  circuits.put(key, {failures, till, false, false})
end

function unpack_piece.turn(lane, user, priority, last, waiting)
  turns.set(lanes.get(lane), user, priority, last, waiting)
end

function unpack_piece.seat(lane, user, active, parked, out)
  local seat = lanes.seat(lanes.get(lane), user)
  seat.active, seat.parked, seat.out = active, parked, out
end

function unpack_piece.session(name, facts)
  local book = sessions.get(name)
  for what, value in pairs(facts) do
    book[what] = value
  end
  -- What operators have set for it may have come in this very call.
  book.ruled, book.paused = cached_hash.at('session_rules'):find(name) or {}, base.set('paused_sessions')[name] or false
  sessions.judge(book)
end

function unpack_piece.job(id, packed, spec, records)
  if job_records.find(id) then
    return
  end
  local latest = job_records.latest()
  job_records.list(job_records.read(id, packed), spec, nil)
  job_records.set_latest(latest)
  for _, record in ipairs(records) do
    fire_records.record(id, record)
  end
end

function unpack_piece.key(field, run_id, number, digest, at)
  cached_hash.at('keys'):put(field, {run_id, number, digest, at})
  call_later('ZADD', 'orphan_keys', base.digits(at), field)
end

local function unpack_log(run, log)
  for _, chunk in ipairs(log) do
    logs.append(run, chunk[1], chunk[2])
  end
end

local function unpack_messages(run, taken, field)
  local texts = {}
  for _, one in ipairs(taken) do
    local message, moved = one[1], one[2]
    local kind = message[2]
    run[kind] = (run[kind] or 0) + 1
    run.messages = (run.messages or 0) + 1
    texts[#texts + 1] = pack(message)
    if not moved then
      cached_hash.at('takers'):put(message[1], {run.number, kind, message[6]})
    end
  end
  if #texts > 0 then
    base.at_this_end(function()
      base.send('RPUSH', PREFIX .. 'taken:' .. field, texts)
    end)
  end
end

local function unpack_keys(run, keys)
  for _, key in ipairs(keys) do
    cached_hash.at('keys'):put(key[1], {run.id, run.number, key[2], key[3]})
    run.keyed = run.keyed or {}
    run.keyed[#run.keyed + 1] = key[1]
  end
end

-- List a run that is neither on a shelf nor ended.
local function list_beside(run)
  if run.state == 'waiting' then
    shelves.put_deadline(run)
  elseif run.state == 'paused' and run.session then
    local book = sessions.find(run.session)
    if not (book and base.index_of(book.admitted, run.number)) then
      shelves.note_later(run, true)  -- undone if its place says that it is held
    end
  end
end

-- Write a run: `facts` are those of `pieces.pack_run`, except for its ties, which are in the form of submissions.
function unpack_piece.run(facts)
  if runs.get(facts.number) then
    return
  end
  local run = new_runs.unpack(facts)
  local field = base.digits(run.number)
  for _, name in ipairs(RARE) do
    run[name] = facts[name] or nil
  end
  run.kind = run.fence > 0 and AGAIN or 0
  run.failed, run.saved, run.prepared =
    facts.error and true or nil, facts.checkpoint and true or nil, facts.prepared and true or nil
  for name, hash in pairs(BESIDE_RUN) do
    if facts[name] and name ~= 'ties' then
      base.set_text(hash, field, facts[name])
    end
  end
  if facts.ties then
    run.ties = facts.ties
    base.set_text('ties', field, facts.ties_text)
  end
  if facts.follows then
    base.set_text('follows', field, pack(facts.follows))
  end
  unpack_log(run, facts.log)
  for _, memo in ipairs(facts.memos) do
    memos.keep(run, memo)
  end
  unpack_messages(run, facts.taken, field)
  unpack_keys(run, facts.keys)
  list_beside(run)
  local book = lanes.get(run.lane)
  if book.when_full == 'drop_old' and book.max_pending and run.fence == 0 and not TERMINAL[run.state] then
    cached_zset.at('fresh:' .. run.lane):put(run.number, run.number)
  end
end

function unpack_piece.place(number, shelf, rank, kind, gate)
  local run = runs.get(number)
  if run.shelf then
    return
  end
  run.kind = kind
  if shelf == 'held' then
    if run.state == 'paused' then
      shelves.note_later(run, false)
    end
    shelves.put_held(run, rank)
  elseif shelf == 'due' then
    shelves.put_due(run)
  else
    if shelf == 'ready' then
      shelves.put_ready(run.lane, run.number, kind, rank)
    else
      shelves.put_parked(run, gate, rank)
    end
  end
end

-- Write pieces, each {kind, ...}.
function pieces.unpack(list)
  for _, piece in ipairs(list) do
    unpack_piece[piece[1]](unpack(piece, 2, 10))
  end
end
