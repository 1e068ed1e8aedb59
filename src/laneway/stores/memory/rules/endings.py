"""Ends of runs in the memory store: what is written for the runs that follow, and for the run that waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.core.lifecycle import control, endings
from laneway.core.records.run import NewRun
from laneway.core.records.states import TERMINAL, RunState
from laneway.stores.memory.rules.inboxes import RecordInboxes
from laneway.stores.memory.state.records import RunRecord
from laneway.stores.memory.state.state import MemoryState

Accept = Callable[[NewRun, int], object]


class RecordEndings:
    """Applies the consequences of an end. `accept` and `cancel` are set later: their owners also end runs."""

    accept: Accept
    cancel: Callable[[RunRecord], None]  # a called run that nobody waits for any more
    let_go_on: Callable[[RunRecord, control.Change], None]

    def __init__(self, state: MemoryState, inboxes: RecordInboxes) -> None:
        self._state, self._inboxes = state, inboxes

    def close(self, run: RunRecord, now: int, held: Sequence[NewRun] = ()) -> None:
        """Apply the end of a run that still has its session's place. `held` is what its attempt held back."""
        if run.taken:
            self._inboxes.close(run, now)
        if run.ties is not None or held:
            for new in endings.follow_ups(run, run.state, held):
                self.accept(new, now)
        if run.wait is not None:
            self._cancel_called(run)
        if run.ties is not None and run.ties.call is not None:
            self._tell_parent(run, now)
        if run.ties is not None and run.ties.job is not None:
            self._state.jobs.hear(run, now)

    def _cancel_called(self, run: RunRecord) -> None:
        for run_id in run.wait.called if run.wait is not None else ():
            child = self._state.by_id.get(run_id)
            if child is not None and child.state not in TERMINAL:
                self.cancel(child)

    def _tell_parent(self, run: RunRecord, now: int) -> None:
        parent = self._state.by_id.get((run.ties or endings.NO_TIES).parent or "")
        if parent is None or parent.state in TERMINAL:
            return
        memo, told = endings.word_of(run, run.state, parent.attempt, run.result, run.reason, run.failure)
        parent.keep(memo)
        waits = parent.wait is not None and any(call.run_id == run.id for call in parent.wait.calls)
        if waits and parent.state is RunState.WAITING:
            self.let_go_on(parent, control.go_on(parent.request, told))
        else:
            self._state.say(parent, (told,), now)
