-- needs: runtime/base, runtime/replies, state/workers, rules/wakeups, rules/lifecycle/step
-- Claiming ahead for an idle worker: who submits does the step that the worker would make when it is woken, and the
-- wake-up brings the answer (`WorkerStore.step`).
--
-- Only functions of the library do so: to other scripts the rest of a step would be much to read for each submission.

local claim_ahead = {}
local MOST_SENT = 65536  -- bytes of an answer that a wake-up brings; who gets nothing asks

-- Make the next step of the idle worker that was chosen to be woken, and tell it the answer. Whoever calls this flushes.
function wakeups.claim_ahead(id, room)
  local worker = workers.find(id)
  local next_step = {id, worker.call + 1, {{}, {}, {}, {}}, {}, room, true, {}, {}, false, false}
  local reply = step.take(worker, next_step, false)
  worker.lent = true
  wakeups.wake()
  wakeups.tell(id, #reply <= MOST_SENT and replies.list({pack(worker.call), reply}) or '')
end
