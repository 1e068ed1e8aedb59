-- needs: base, replies, workers, waking, stepping
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

waking.lend = lending.lend
