"""The states of the jobs that a transaction fires, or whose runs it ends. Most transactions have none.

*Crash*: the state of a job is written in the transaction that makes or ends its runs: both are written, or neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from laneway.core.jobs.after import alarm, ended
from laneway.core.jobs.record import JobRecord
from laneway.core.records.job_tie import JobTie
from laneway.core.records.run import Failure
from laneway.core.records.states import RunState
from laneway.stores.tables.rows import jobs
from laneway.stores.tables.rows.leased_run import LeasedRun
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.wakeups import wake_for_fire
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names

_SQL = sql_names("jobs")


class JobStates:
    """Jobs as this transaction has changed them; `write` writes them."""

    __slots__ = ("_db", "_known", "_moved", "_now", "_soonest", "is_changed")

    def __init__(self, db: Database, now: int, soonest: int | None) -> None:
        self._db, self._now, self._soonest = db, now, soonest
        self._known: dict[str, JobRecord | None] = {}
        self._moved: set[str] = set()
        self.is_changed = False  # states have changed, written or not

    def fetch(self, ids: Iterable[str]) -> None:
        """Load these jobs, if they are not known."""
        unknown = [job_id for job_id in dict.fromkeys(ids) if job_id not in self._known]
        if unknown:
            self._known |= dict.fromkeys(unknown)
            self._known |= {row[0]: jobs.as_job(row) for row in self._db.execute(_SQL["jobs"], (as_json(unknown),))}

    def get(self, job_id: str) -> JobRecord | None:
        """Return the job of that id, if there is one."""
        self.fetch((job_id,))
        return self._known[job_id]

    def put(self, after_commit: AfterCommit, job: JobRecord) -> None:
        """Set the state of a job; its spec does not change."""
        self._note(job.id, job)
        if wake_for_fire(self._db, after_commit, job.state.fire_at, self._soonest):
            self._soonest = job.state.fire_at

    def run_ended(self, after_commit: AfterCommit, run: LeasedRun, state: RunState, failure: Failure | None) -> None:
        """Update the job of a run that has ended, if a job made the run."""
        tie = _job_of(run)
        job = None if tie is None else self.get(tie.id)
        if job is None:
            return
        error = None if failure is None else failure.message
        after = ended(job, run.id, state, error, self._now, by_hand=tie is not None and tie.by_hand)
        if after is None:
            self._note(job.id, None)
            return
        self.put(after_commit, after)
        told = alarm(job, after, error, self._now)
        if told is not None:
            jobs.put_fires(self._db, {(job.id, told.nth): told})

    def runs_ended(self, after_commit: AfterCommit, ends: Sequence[tuple[LeasedRun, RunState, Failure | None]]) -> None:
        """Update the jobs of runs that have ended, in this order; the ids of the runs may not have been read."""
        fires = [(run, job.id, state, failure) for run, state, failure in ends if (job := _job_of(run)) is not None]
        if fires:
            self.fetch(job_id for _, job_id, *_ in fires)
            numbers = as_json(run.number for run, *_ in fires)
            ids: dict[int, str] = dict(self._db.execute(_SQL["run_ids"], (numbers,)).fetchall())
            for run, _, state, failure in fires:
                run.id = ids[run.number]
                self.run_ended(after_commit, run, state, failure)

    def write(self) -> None:
        """Write the states that have changed."""
        if not self._moved:
            return
        moved = [(job_id, self._known[job_id]) for job_id in self._moved]
        self._db.each(_SQL["move"], [_row(job) for _, job in moved if job is not None])
        for job_id in [job_id for job_id, job in moved if job is None]:
            jobs.remove(self._db, job_id)
        self._db.execute(_SQL["note_time"], (self._now,))
        self._moved.clear()

    def soonest(self) -> int | None:
        """Return when the first job is due, according to the table."""
        return jobs.soonest(self._db)

    def _note(self, job_id: str, job: JobRecord | None) -> None:
        self._known[job_id] = job
        self._moved.add(job_id)
        self.is_changed = True


def _job_of(run: LeasedRun) -> JobTie | None:
    ties = run.ties
    return None if ties is None else ties.job


def _row(job: JobRecord) -> tuple[bool, int | None, int, str, str]:
    return job.is_on, job.state.fire_at, job.version, jobs.as_text(job.state), job.id
