"""What an attempt leaves behind: follow-ups, calls, and waits. They are written together with its settlement.

They are accepted by the same rules as every submission, after the results that the step settled before are written.

*Crash*: they are in one transaction with the settlement: they exist once or, if the attempt was not settled, not at
all. A call that a later attempt repeats has the same id, so it is a duplicate.
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
    """Return whether the end of this attempt affects other runs; most do not."""
    if settlement.leaves is not None or run.waited is not None:
        return True
    ties = run.ties
    return ties is not None and (ties.call is not None or bool(ties.then or ties.on_failure))


class FollowUps:
    """Writes what settlements leave behind. `behind`: see `Intake.is_behind`."""

    def __init__(self, transaction: Transaction, after_commit: AfterCommit, *, behind: bool) -> None:
        self._transaction, self._db, self._behind = transaction, transaction.db, behind
        self._run_control = RunControl(transaction, after_commit)

    def end(self, run: LeasedRun, state: RunState, settlement: Settlement) -> None:
        """Apply the end of a run. Its record is written already; it still has its place in its session."""
        [[run.id]] = self._db.execute(_ID, (run.number,)).fetchall()
        held = () if settlement.leaves is None else settlement.leaves.follow_ups
        self._accept(endings.follow_ups(run, state, held))
        self._run_control.endings.close(run, state, settlement.result, settlement.reason, settlement.failure)

    def stamped(self, run: LeasedRun, wait: Wait) -> tuple[Wait, bool]:
        """Return the wait with its start time and deadlines, and whether it is over already."""
        returned = memos.returned(self._db, run.number)
        stands = wait.stamped(self._transaction.now, run.wait, returned)
        return stands, stands.is_over(returned)

    def wait(self, run: LeasedRun, wait: Wait, calls: Sequence[NewRun], *, over: bool) -> None:
        """Let a run wait after its attempt, and submit its calls. If the wait is `over` already, the run goes on."""
        waits.put(self._db, run.number, wait, run.request, over=over)
        self._accept(calls)
        if not over:
            self._transaction.flow.wait(run, asks=bool(wait.questions))
            self._transaction.rescheduled = True

    def _accept(self, batch: Sequence[NewRun]) -> None:
        """Submit these runs; those whose ids exist are left out."""
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
