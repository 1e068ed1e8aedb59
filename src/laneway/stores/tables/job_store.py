"""The verbs of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.ports.jobs import DueJobs, JobChange, JobFilter
from laneway.stores.tables.reads import jobs as job_reads
from laneway.stores.tables.runtime.access import R, StoreAccess
from laneway.stores.tables.verbs import fires, jobs


class Jobkeeping(StoreAccess[R]):
    """Keeps and fires jobs; see `JobStore`."""

    async def change_job(self, change: JobChange) -> JobRecord | None:
        """Add, edit or remove a job; see `JobStore`."""
        return await self._write(lambda db, after_commit: jobs.change(db, after_commit, change, db.now()))

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return jobs by name; see `JobStore`."""
        return await self._read(lambda db: job_reads.listed(db, wanted, limit, after))

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        """Return what is due; see `JobStore`."""
        return await self._read(lambda db: job_reads.due(db, limit, after, db.now()))

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        """Write firings; see `JobStore`."""
        return await self._write(lambda db, after_commit: fires.fire(db, after_commit, firings, db.now()), gated=False)

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        """Return a job's records, newest first; see `JobStore`."""
        return await self._read(lambda db: job_reads.fires(db, job_id, limit, before))

    async def restart_time(self) -> None:
        """Take the time as it is; see `JobStore`."""
        await self._write(lambda db, _: jobs.restart_time(db, db.now()))
