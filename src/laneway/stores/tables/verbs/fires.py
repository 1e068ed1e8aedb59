"""Fires of jobs: the runs of a fire, its records and the job's next fire time, in one transaction.

*Race*: of those who decide on one fire, the first to commit wins; the others find another version of the job.

*Crash*: before the COMMIT nothing is written, and the fire is decided again; after it everything is written, and the
job is not due any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.jobs.after import applied
from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.core.records.run import NewRun, Receipt, ReceiptOutcome
from laneway.stores.tables.rows.jobs import decode_fire, put_fires
from laneway.stores.tables.rules.acceptance import known
from laneway.stores.tables.rules.late_questions import begin
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.move_state import refuse
from laneway.stores.tables.runtime.wakeups import wake_for_work
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state.transaction import Transaction
from laneway.stores.tables.verbs.submissions import Batch

_SQL = sql_names("jobs")


def fire(db: Database, after_commit: AfterCommit, firings: Sequence[Firing], now: int) -> list[Fired]:
    """Write these firings; see `JobStore.fire`."""
    transaction = begin(db, after_commit, now)
    if transaction.header.moving:
        refuse(db, new=True)
    fired = _Firings(transaction, after_commit, firings).fire()
    if transaction.header.resting:
        wake_for_work(db, after_commit, now)
    return fired


class _Firings:
    """Firings, one after the other: the runs of one may end runs of another one's job."""

    def __init__(self, transaction: Transaction, after_commit: AfterCommit, firings: Sequence[Firing]) -> None:
        self._transaction, self._after_commit, self._firings = transaction, after_commit, firings
        self._db, self._jobs = transaction.db, transaction.jobs
        runs = [run for firing in firings for run in firing.runs]
        seen = known(self._db, runs)
        self._known = set(seen)  # ids of runs
        self._batch = Batch(transaction, after_commit, runs, seen)
        ids = {firing.job_id for firing in firings}
        self._jobs.fetch(ids)
        self._newest = {job: decode_fire(text) for job, text in self._db.execute(_SQL["newest_fires"], (as_json(ids),))}
        pairs = as_json((firing.job_id, run.id) for firing in firings for run in firing.runs)
        self._fired: set[tuple[str, str | None]] = set(self._db.execute(_SQL["fired"], (pairs,)))
        self._records: dict[tuple[str, int], FireRecord] = {}

    def fire(self) -> list[Fired]:
        """Make each firing whose job has the expected version, and write all."""
        fired = [self._fire(firing) for firing in self._firings]
        self._batch.write()
        put_fires(self._db, self._records)
        return fired

    def _fire(self, firing: Firing) -> Fired:
        job = self._jobs.get(firing.job_id)
        if job is None or firing.version not in (None, job.version):
            return Fired(False)
        receipts = tuple(self._accept(job, run) for run in firing.runs)
        # Accepting a run may have ended other runs of the job, so the job is read again.
        self._apply(self._jobs.get(job.id) or job, firing, receipts)
        return Fired(True, receipts)

    def _accept(self, job: JobRecord, run: NewRun) -> Receipt | None:
        if run.id in self._known or (job.id, run.id) in self._fired:
            return None
        receipt = self._batch.accept_one(run)
        if receipt.outcome is ReceiptOutcome.ACCEPTED:
            self._known.add(run.id)
        return receipt

    def _apply(self, job: JobRecord, firing: Firing, receipts: tuple[Receipt | None, ...]) -> None:
        after, records = applied(job, firing, receipts, self._transaction.now, self._newest.get(job.id))
        self._jobs.put(self._after_commit, after)
        for record in records:
            self._records[job.id, record.nth] = self._newest[job.id] = record
            self._fired.add((job.id, record.run_id))
