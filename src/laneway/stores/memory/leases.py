"""The memory store's leases: who holds which run, and what is written under a lease."""

from __future__ import annotations

from laneway.core.outcome import STATES, overruled
from laneway.core.run import Request
from laneway.core.states import Move, RunState
from laneway.core.step import Requested, Result, Step
from laneway.stores.memory.inboxes import Inboxes
from laneway.stores.memory.kept import Kept
from laneway.stores.memory.records import Batch, Record
from laneway.stores.memory.workers import Worker

# Names of their own: looking up an enum's member costs more than what is done with it.
_PENDING, _PAUSED, _PAUSE = RunState.PENDING, RunState.PAUSED, Move.PAUSE


class Leases:
    """Writes under leases that stand. The store holds the lock."""

    def __init__(self, kept: Kept, inboxes: Inboxes) -> None:
        self._kept, self._flow, self._heaps, self._inboxes = kept, kept.flow, kept.heaps, inboxes
        self.requested: set[int] = set()  # the numbers of running runs of which something was requested

    def settle(self, worker: Worker, result: Result, now: int) -> bool:
        """Write a settlement if the lease stands; tell whether it does."""
        number = result.number
        run = worker.leases.get(number)
        if run is None or run.fence != result.fence:
            return False
        settlement = result.settlement
        if run.request is not None or settlement.move is _PAUSE:
            settlement = overruled(settlement, run.request, run.attempt)
            run.request = None
        if self.requested:
            self.requested.discard(number)
        del worker.leases[number]
        run.log = Batch(run.attempt, now, settlement.drafts, run.log)
        run.state = state = STATES[settlement.move]
        run.worker, run.lapsed, run.timed_out = None, False, False
        run.attempt, run.crashes, run.reason = settlement.attempt, settlement.crashes, settlement.reason
        run.result, run.failure = settlement.result, settlement.failure
        self._flow.free(run)
        if run.session is not None:
            run.read = result.read
            if result.throttled is not None:
                self._flow.throttle(run.session, throttled=result.throttled)
        if state is _PENDING:
            self._return(run, now + settlement.delay, now)
        elif state is _PAUSED:
            run.due_at = now + settlement.delay
        else:
            run.ended_at = now
            if run.taken:
                self._inboxes.close(run, now)
            if run.session is not None:
                self._flow.end(run)
        return True

    def _return(self, run: Record, due_at: int, now: int) -> None:
        run.due_at = due_at
        self._kept.lanes[run.lane].pending += 1
        if due_at > now:
            self._heaps.put_due(run)
            self._flow.step_out(run)
        else:
            self._flow.rejoin(run)

    def write(self, worker: Worker, step: Step, now: int) -> list[tuple[int, int]]:
        """Write what goes on under leases that are kept; return those that are not the worker's."""
        refused = []
        for emitted in step.emitted:
            run = leased(worker, emitted.number, emitted.fence)
            if run is None:
                refused.append((emitted.number, emitted.fence))
            else:
                run.log = Batch(run.attempt, now, emitted.drafts, run.log)
        for saved in step.saved:
            run = leased(worker, saved.number, saved.fence)
            if run is None:
                refused.append((saved.number, saved.fence))
            else:
                if saved.state is not None:
                    run.checkpoint, run.crashes = saved.state, 0
                if saved.prepared is not None:
                    run.prepared = saved.prepared
        for number, fence in step.overdue:
            run = leased(worker, number, fence)
            if run is not None:
                run.timed_out = True
        return refused

    def requests(self, worker: Worker) -> list[Requested]:
        """Return what stands requested of the runs that the worker executes."""
        found = []
        for number in sorted(self.requested & worker.leases.keys()):
            run = worker.leases[number]
            if run.lapsed:
                continue
            if run.request is not None:
                found.append(Requested(number, run.fence, run.request))
            if inbox := run.inbox:
                found.append(Requested(number, run.fence, Request.STEER, len(inbox)))
        return found


def leased(worker: Worker, number: int, fence: int) -> Record | None:
    """Return the run if the worker holds it under this fence."""
    run = worker.leases.get(number)
    return run if run is not None and run.fence == fence else None
