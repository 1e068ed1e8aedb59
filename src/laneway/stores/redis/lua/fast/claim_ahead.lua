-- needs: runtime/base, runtime/replies, state/workers, rules/wakeups, rules/lifecycle/step
-- Claiming ahead for an idle worker: a submission makes the step that the worker would make after its wake-up, and the
-- wake-up brings the reply (`WorkerStore.step`).
--
-- Only functions of the library do this: a script would have to load the code of a step at each submission.

local claim_ahead = {}
local MOST_SENT = 65536  -- the longest reply that a wake-up brings, in bytes; a worker that gets none calls `step`

-- Make the next step of an idle worker, and send it the reply. The caller flushes.
function wakeups.claim_ahead(id, room)
  local worker = workers.find(id)
  local next_step = {id, worker.call + 1, {{}, {}, {}, {}}, {}, room, true, {}, {}, false, false}
  local reply = step.take(worker, next_step, false)
  worker.made_ahead = true
  wakeups.wake()
  wakeups.send(id, #reply <= MOST_SENT and replies.list({pack(worker.call), reply}) or '')
end
