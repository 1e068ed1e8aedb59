-- needs: runtime/base, runtime/replies, state/runs, state/lanes, rules/turns, state/workers, rules/waking, fast/alike
-- needs: rules/stepping
-- Doing the step that a resting worker has lent (`WorkerStore.step`), so that it need not ask for what was just written.
--
-- The step is as one that comes next, but within the same script, so nobody sees anything in between; what is put and
-- taken is never written. Only functions of the library lend: to other scripts the rest of a step would be much to read
-- for each submission.

local lending = {}
local MOST_SENT = 65536  -- bytes of an answer that a wake-up brings; who hears of nothing asks

-- Do the step that the worker has lent which was chosen to be woken, and tell it the answer. Whoever calls this flushes.
function lending.lend(id, room)
  local worker = workers.find(id)
  local step = {id, worker.call + 1, {{}, {}, {}, {}}, {}, room, true, {}, {}, false, false}
  local reply = stepping.take(worker, step, false)
  worker.lent = true
  waking.wake()
  waking.tell(id, #reply <= MOST_SENT and replies.list({pack(worker.call), reply}) or '')
end

-- Start a run that comes alone to a store where nothing else waits (`offer_alone` in plain.lua), for the worker that has
-- lent its step; tell if so. It is in no order in between, and nobody is left to be woken: what stands here is what
-- `lending.lend` comes to then. Whoever calls this flushes.
function lending.start(new)
  local book = lanes.get(new.lane)
  if not base.is_quiet() or next(base.set('working')) ~= nil or book.worker_limit or lanes.room(book) <= 0 then
    return false
  end
  local id, room = waking.first_lender()
  local worker = id and workers.tasks(id)[new.task] and workers.find(id)
  if not worker then
    return false
  end
  local record, rest, form = alike.started_new(worker, new.task, new.lane, new.priority, new.id, new.args)
  if not record then
    return false
  end
  turns.start(book, new.priority, nil, FRESH, turns.enter_fresh(book, nil, new.priority, 1), 1)
  runs.write(new.field, record)
  alike.lend(worker, new.lane, {new.field})
  worker.call, worker.short, worker.lent = worker.call + 1, false, true
  worker.reply = stepping.to_keep(new.field, {1, form.fence}, {}, false, false, {})
  local groups = {{1, form.handed, form.width}}
  local reply = stepping.answer(worker, false, new.field, {rest}, groups, {}, false, false, NOW)
  waking.rest(worker, room > 1, nil, false)
  base.said = true
  waking.tell(id, replies.list({pack(worker.call), reply}))
  return true
end

waking.lend, waking.start = lending.lend, lending.start
