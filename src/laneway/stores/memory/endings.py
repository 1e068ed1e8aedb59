"""The memory store's ends of runs: what is written with them, for the runs that follow and the one that waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.core.lifecycle import control, endings
from laneway.core.records.run import NewRun
from laneway.core.records.states import TERMINAL, RunState
from laneway.stores.memory.inboxes import Inboxes
from laneway.stores.memory.kept import Kept
from laneway.stores.memory.records import Record

Accept = Callable[[NewRun, int], object]


class Endings:
    """Does what an end brings with it. Who accepts and steers runs is told once it is there: they end some, too."""

    accept: Accept
    cancel: Callable[[Record], None]  # a called run that nobody waits for any more
    let_go_on: Callable[[Record, control.Change], None]

    def __init__(self, kept: Kept, inboxes: Inboxes) -> None:
        self._kept, self._inboxes = kept, inboxes

    def close(self, run: Record, now: int, held: Sequence[NewRun] = ()) -> None:
        """Hear that the run has ended, and still has its session's place. `held` is what its attempt held back."""
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
            self._kept.jobs.hear(run, now)

    def _cancel_called(self, run: Record) -> None:
        for run_id in run.wait.called if run.wait is not None else ():
            child = self._kept.by_id.get(run_id)
            if child is not None and child.state not in TERMINAL:
                self.cancel(child)

    def _tell_parent(self, run: Record, now: int) -> None:
        parent = self._kept.by_id.get((run.ties or endings.NO_TIES).parent or "")
        if parent is None or parent.state in TERMINAL:
            return
        memo, told = endings.word_of(run, run.state, parent.attempt, run.result, run.reason, run.failure)
        parent.keep(memo)
        waits = parent.wait is not None and any(call.run_id == run.id for call in parent.wait.calls)
        if waits and parent.state is RunState.WAITING:
            self.let_go_on(parent, control.go_on(parent.request, told))
        else:
            self._kept.say(parent, (told,), now)
