"""The memory store's leases: who holds which run, and what is written under a lease."""

from __future__ import annotations

from collections.abc import Callable

from laneway.core.events import STARTED, draft
from laneway.core.flow import Flow
from laneway.core.liveness import Incarnation
from laneway.core.outcome import STATES, overruled
from laneway.core.states import Move, RunState
from laneway.core.step import Requested, Result, Step, StepReply
from laneway.stores.heaps import Heaps
from laneway.stores.records import Batch, Record

# Names of their own: looking up an enum's member costs more than what is done with it.
_PENDING, _PAUSED, _PAUSE = RunState.PENDING, RunState.PAUSED, Move.PAUSE


class Worker:
    """An incarnation and what it holds."""

    __slots__ = ("call", "idle", "incarnation", "leases", "left", "renewed_at", "reply", "started", "told", "wake")

    def __init__(self, incarnation: Incarnation, wake: Callable[[], None], now: int) -> None:
        self.incarnation, self.wake, self.renewed_at = incarnation, wake, now
        self.leases: dict[int, Record] = {}
        self.call, self.reply = 0, StepReply()
        self.idle = self.left = False
        self.told: int | None = None  # the next due time it knew of when it went to rest
        self.started = (draft(STARTED, {"worker": incarnation.id}),)


class Leases:
    """Writes under leases that stand. The store holds the lock."""

    def __init__(self, flow: Flow[Record], heaps: Heaps) -> None:
        self._flow, self._heaps = flow, heaps
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
            self.requested.discard(number)
        del worker.leases[number]
        run.log = Batch(run.attempt, now, settlement.drafts, run.log)
        run.state = state = STATES[settlement.move]
        run.worker, run.lapsed, run.timed_out = None, False, False
        run.attempt, run.crashes, run.reason = settlement.attempt, settlement.crashes, settlement.reason
        run.result, run.failure = settlement.result, settlement.failure
        self._flow.free(run)
        if state is _PENDING:
            self._return(run, now + settlement.delay, now)
        elif state is _PAUSED:
            run.due_at = now + settlement.delay
        else:
            run.ended_at = now
            if run.session is not None:
                self._flow.end(run)
        return True

    def _return(self, run: Record, due_at: int, now: int) -> None:
        run.due_at = due_at
        if due_at > now:
            self._heaps.put_due(run)
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
                run.checkpoint, run.crashes = saved.state, 0
        for number, fence in step.overdue:
            run = leased(worker, number, fence)
            if run is not None:
                run.timed_out = True
        return refused

    def requests(self, worker: Worker) -> list[Requested]:
        """Return what stands requested of the runs that the worker executes."""
        runs = [worker.leases[number] for number in sorted(self.requested) if number in worker.leases]
        return [Requested(run.number, run.fence, run.request) for run in runs if run.request and not run.lapsed]


def leased(worker: Worker, number: int, fence: int) -> Record | None:
    """Return the run if the worker holds it under this fence."""
    run = worker.leases.get(number)
    return run if run is not None and run.fence == fence else None
