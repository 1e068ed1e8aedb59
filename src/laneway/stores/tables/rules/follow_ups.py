"""Leaving: what an attempt leaves behind is written with its settlement: follow-ups, calls, and what it waits for.

They are accepted by the rules that hold for every submission, on tables that hold whatever the step settled before.

*Crash*: one transaction with the settlement: they are there once or, if the attempt was not settled, not at all. A call
that is repeated by a later attempt has the id of the first, and is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.lifecycle import endings
from laneway.core.lifecycle.outcome import Settlement
from laneway.core.records.memos import Wait
from laneway.core.records.policy import MAIN
from laneway.core.records.run import NewRun
from laneway.core.records.states import RunState
from laneway.stores.tables.rows import memos, waits
from laneway.stores.tables.rows.leased_run import LeasedRun
from laneway.stores.tables.rules.acceptance import TableIntake, known
from laneway.stores.tables.rules.run_control import RunControl
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.state.transaction import Transaction

_ID = sql_names("settlements")["id"]


def leaves_more(run: LeasedRun, settlement: Settlement) -> bool:
    """Tell whether the end of this attempt concerns other runs; that of most does not."""
    if settlement.leaves is not None or run.waited is not None:
        return True
    ties = run.ties
    return ties is not None and (ties.call is not None or bool(ties.then or ties.on_failure))


class FollowUps:
    """Does what settlements bring with them. `behind`: runs that are due wait to be moved, see `Intake.is_behind`."""

    def __init__(self, transaction: Transaction, after_commit: AfterCommit, *, behind: bool) -> None:
        self._transaction, self._db, self._behind = transaction, transaction.db, behind
        self._run_control = RunControl(transaction, after_commit)

    def end(self, run: LeasedRun, state: RunState, settlement: Settlement) -> None:
        """Hear that the run has ended so. Its record says that already, and it still has its session's place."""
        [[run.id]] = self._db.execute(_ID, (run.number,)).fetchall()
        held = () if settlement.leaves is None else settlement.leaves.follow_ups
        self._accept(endings.follow_ups(run, state, held))
        self._run_control.endings.close(run, state, settlement.result, settlement.reason, settlement.failure)

    def stamped(self, run: LeasedRun, wait: Wait) -> tuple[Wait, bool]:
        """Return what the run waits for as it stands from now on, and whether one of those has ended already."""
        returned = memos.returned(self._db, run.number)
        stands = wait.stamped(self._transaction.now, run.wait, returned)
        return stands, stands.is_over(returned)

    def wait(self, run: LeasedRun, wait: Wait, calls: Sequence[NewRun], *, over: bool) -> None:
        """Let a run wait that is executed no more, for runs that are submitted now. If that is `over`, it goes on."""
        waits.put(self._db, run.number, wait, run.request, over=over)
        self._accept(calls)
        if not over:
            self._transaction.flow.wait(run, asks=bool(wait.questions))
            self._transaction.rescheduled = True

    def _accept(self, batch: Sequence[NewRun]) -> None:
        """Submit runs that the engine makes, but for those whose ids were seen before."""
        if not batch:
            return
        intake: TableIntake

        def flush() -> None:
            intake.write()
            self._transaction.write_shelves()

        intake = TableIntake(self._transaction, self._run_control, batch, lambda: None, flush, behind=self._behind)
        for new in batch:
            if not known(self._db, [new]):
                intake.accept(new, new.lane if self._transaction.counts.lanes.knows(new.lane) else MAIN)
                intake.write()
