"""The memory store's control verbs: what `core.control` decided, done to one record. The store holds the lock."""

from __future__ import annotations

from laneway.core.control import Change
from laneway.core.flow import Flow
from laneway.core.states import TERMINAL, RunState
from laneway.stores.heaps import Heaps
from laneway.stores.records import Batch, Record


class Steering:
    """Moves records from where they are to where a change wants them."""

    def __init__(self, flow: Flow[Record], heaps: Heaps) -> None:
        self._flow, self._heaps = flow, heaps

    def apply(self, run: Record, change: Change, now: int) -> None:
        """Do it. A run that ends while it is running has lost its lease already."""
        before, run.state, run.request = run.state, change.state, change.request
        run.log = Batch(run.attempt, now, change.drafts, run.log)
        if before is RunState.PENDING:
            self._heaps.remove(run)
            self._flow.withdraw(run, run.shelf)
        if change.state in TERMINAL:
            self._end(run, before, now)
            run.reason = change.reason
        elif change.state is RunState.PENDING:
            self._put_back(run, now)

    def _end(self, run: Record, before: RunState, now: int) -> None:
        if before is RunState.RUNNING:
            self._flow.free(run)
        if run.fence:
            self._flow.end(run)
        run.ended_at, run.worker, run.lapsed = now, None, False

    def _put_back(self, run: Record, now: int) -> None:
        if run.due_at > now:
            self._heaps.put_due(run)
        elif run.fence:
            self._flow.rejoin(run)
        else:
            self._flow.join(run, run.max_concurrent)
