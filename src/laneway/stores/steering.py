"""The memory store's control verbs: cancelling, pausing and resuming one record. The store holds the lock and wakes."""

from __future__ import annotations

from laneway.core import events
from laneway.core.events import Draft, draft
from laneway.core.flow import Flow
from laneway.core.outcome import CANCELLED
from laneway.core.run import Request
from laneway.core.states import TERMINAL, RunState
from laneway.errors import WrongState
from laneway.stores.heaps import Batch, Heaps, Record

ABANDONED = "abandoned"


class Steering:
    """What is asked of runs from outside. Each verb tells whether it changed anything."""

    def __init__(self, flow: Flow[Record], heaps: Heaps) -> None:
        self._flow, self._heaps = flow, heaps

    def request_cancel(self, run: Record, now: int) -> bool:
        """Request a running run to be cancelled."""
        if run.request is Request.CANCEL:
            return False
        run.request = Request.CANCEL
        write(run, now, draft(events.CANCEL_REQUESTED, {}))
        return True

    def cancel(self, run: Record, now: int, reason: str | None = None) -> bool:
        """End a run that is executed no more; one that runs has lost its lease already."""
        if run.state is RunState.CANCELLED:
            return False
        if run.state in TERMINAL:
            raise WrongState(run.state.value, "cancel")
        requested = () if run.request is Request.CANCEL else (draft(events.CANCEL_REQUESTED, {}),)
        started = run.fence > 0
        if run.state is RunState.PENDING:
            self._take_out(run)
        if run.state is RunState.RUNNING:
            self._flow.free(run)
        if started:
            self._flow.end(run)
        run.state, run.reason, run.ended_at = RunState.CANCELLED, reason, now
        run.worker, run.lapsed, run.request = None, False, None
        write(run, now, *requested, *CANCELLED)
        return True

    def pause(self, run: Record, now: int) -> bool:
        """Pause a pending run, or request a running one to be."""
        if run.state is RunState.PAUSED or run.request is Request.PAUSE:
            return False
        if run.request is Request.CANCEL or run.state not in {RunState.PENDING, RunState.RUNNING}:
            raise WrongState("cancelled" if run.request else run.state.value, "pause")
        if run.state is RunState.PENDING:
            self._take_out(run)
            run.state = RunState.PAUSED
            write(run, now, draft(events.PAUSED, {}))
        else:
            run.request = Request.PAUSE
            write(run, now, draft(events.PAUSE_REQUESTED, {}))
        return True

    def resume(self, run: Record, now: int) -> bool:
        """Make a paused run pending again, or take back the request."""
        if run.state is RunState.RUNNING and run.request is Request.PAUSE:
            run.request = None
        elif run.state is RunState.PAUSED:
            run.state = RunState.PENDING
            if run.due_at > now:
                self._heaps.put_due(run)
            elif run.fence:
                self._flow.rejoin(run)
            else:
                self._flow.join(run, run.max_concurrent)
        else:
            raise WrongState(run.state.value, "resume")
        write(run, now, draft(events.RESUMED, {}))
        return True

    def _take_out(self, run: Record) -> None:
        self._heaps.remove(run)
        self._flow.withdraw(run, run.shelf)


def write(run: Record, now: int, *drafts: Draft) -> None:
    """Append events to the run's log."""
    run.log = Batch(run.attempt, now, drafts, run.log)
