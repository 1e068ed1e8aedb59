"""The end of a run: its effects on runs that it called, on the run that called it, and on the job that made it.

*Crash*: the effects are written in the transaction that ends the run. So no run waits for a run that has ended, no
called run goes on without its caller, and no job waits for an end that has come.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from laneway.core.lifecycle import control
from laneway.core.lifecycle.control import Change
from laneway.core.lifecycle.endings import word_of
from laneway.core.records.events import Draft
from laneway.core.records.run import Failure
from laneway.core.records.states import RunState
from laneway.stores.tables.rows import memos
from laneway.stores.tables.rows.controlled_run import ControlledRun
from laneway.stores.tables.rows.leased_run import LeasedRun
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.state.transaction import Transaction


class Beside(Protocol):
    """Changes of runs other than the one that a call is about."""

    def named(self, ids: Collection[str]) -> list[ControlledRun]:
        """Return the runs with these ids, ended or not, in their current state; unknown ids are left out."""

    def cancel_called(self, run: ControlledRun) -> None:
        """Cancel a run whose caller has ended."""

    def let_go_on(self, run: ControlledRun, change: Change) -> None:
        """End the wait of a run."""

    def say(self, run: ControlledRun, *drafts: Draft) -> None:
        """Append events to the run's log; its state does not change."""


class Endings:
    """Cancels the calls of an ended run, and updates the run that called it and the job that made it."""

    def __init__(self, transaction: Transaction, after_commit: AfterCommit, beside: Beside) -> None:
        self._transaction, self._after_commit, self._beside = transaction, after_commit, beside

    def close(
        self,
        run: LeasedRun,
        state: RunState,
        result: str | None = None,
        reason: str | None = None,
        failure: Failure | None = None,
    ) -> None:
        """Apply the end of a run. Its record is written already; it still has its place in its session."""
        wait = run.wait
        if wait is not None and wait.called:
            for child in self._beside.named(wait.called):
                if child.ended_at is None:
                    self._beside.cancel_called(child)
        if run.tied is not None:
            self._tell_parent(run, state, result, reason, failure)
            self._transaction.jobs.run_ended(self._after_commit, run, state, failure)

    def _tell_parent(
        self, run: LeasedRun, state: RunState, result: str | None, reason: str | None, failure: Failure | None
    ) -> None:
        ties = run.ties
        if ties is None or ties.call is None or ties.parent is None:
            return
        for parent in self._beside.named([ties.parent]):
            if parent.ended_at is not None:
                return
            memo, told = word_of(run, state, parent.attempt, result, reason, failure)
            memos.put(self._transaction.db, [(parent.number, memo)])
            calls = () if parent.wait is None else parent.wait.calls
            if parent.stands is RunState.WAITING and any(call.run_id == run.id for call in calls):
                self._beside.let_go_on(parent, control.go_on(parent.requested, told))
            else:
                self._beside.say(parent, told)
