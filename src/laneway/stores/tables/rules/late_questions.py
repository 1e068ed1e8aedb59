"""Deadlines of questions: a run that asks people waits until the deadline, then it ends."""

from __future__ import annotations

from laneway.core.queue.claim import MOST_MOVES
from laneway.core.records.states import RunState
from laneway.stores.tables.rows import waits
from laneway.stores.tables.rules.run_control import RunControl
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.state.transaction import Transaction


def begin(db: Database, after_commit: AfterCommit, now: int, asker: str | None = None) -> Transaction:
    """End runs whose questions were not answered in time, a bounded number of them; return the verb's transaction.

    These ends are written before the verb begins, so the verb can undo what it writes itself.
    """
    transaction = Transaction(db, now, asker)
    if not is_late(transaction):
        return transaction
    run_control = RunControl(transaction, after_commit)
    for found in run_control.read(waits.late(db, now, MOST_MOVES)):
        # The end of a run before it may have ended it, or ended its wait.
        run = run_control.fresh(found)
        if run.stands is RunState.WAITING:
            run_control.expire(run)
    transaction.write()
    return Transaction(db, now, asker)


def is_late(transaction: Transaction) -> bool:
    """Return whether there is a question that was not answered in time."""
    until = transaction.header.until
    return until is not None and until <= transaction.now
