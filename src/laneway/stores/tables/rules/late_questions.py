"""Expiring: whoever asks a question of people waits for the answer until its time is over, and not longer."""

from __future__ import annotations

from laneway.core.queue.claim import MOST_MOVES
from laneway.core.records.states import RunState
from laneway.stores.tables.rows import waits
from laneway.stores.tables.rules.run_control import RunControl
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.state.transaction import Transaction


def begin(
    db: Database, after_commit: AfterCommit, now: int, asker: str | None = None, cache: StepCache | None = None
) -> Transaction:
    """Return what a verb works with, once a bounded number of runs has ended whose questions nobody answered in time.

    That is written before the verb begins: what it does, and undoes, is its own.
    """
    transaction = Transaction(db, now, asker, cache)
    if not is_late(transaction):
        return transaction
    run_control = RunControl(transaction, after_commit)
    for found in run_control.read(waits.late(db, now, MOST_MOVES)):
        # The end of one before it may have ended it, or let it go on.
        run = run_control.fresh(found)
        if run.stands is RunState.WAITING:
            run_control.expire(run)
    transaction.write()
    if cache is not None:
        cache.clear()
    return Transaction(db, now, asker, cache)


def is_late(transaction: Transaction) -> bool:
    """Tell whether there is a question that nobody answered in time."""
    until = transaction.header.until
    return until is not None and until <= transaction.now
