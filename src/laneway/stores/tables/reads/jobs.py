"""Jobs: those that people list, those that are due, and the records of fires."""

from __future__ import annotations

import msgspec

from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.ports.jobs import DueJobs, JobFilter
from laneway.stores.tables.rows.jobs import as_job, decode_fire
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("jobs")
_LAST = 2**62  # greater than every record's number


def listed(db: Database, wanted: JobFilter, limit: int, after: tuple[str, str]) -> list[JobRecord]:
    """Return jobs by name; see `JobStore.jobs`."""
    asked = msgspec.structs.asdict(wanted) | {"limit": max(0, limit), "name": after[0], "id": after[1]}
    statement = "named" if wanted.named is not None else "owned" if wanted.owner is not None else "listed"
    return [as_job(row) for row in db.execute(_SQL[statement], asked)]


def due(db: Database, limit: int, after: tuple[int, str], now: int) -> DueJobs:
    """Return the jobs that are due; see `JobStore.due_jobs`."""
    found = [as_job(row) for row in db.execute(_SQL["due"], (now, *after, max(0, limit)))]
    [[next_at, latest]] = db.execute(_SQL["times"], (now,)).fetchall()
    return DueJobs(now, found, next_at, max(0, latest - now))


def fires(db: Database, job_id: str, limit: int, before: int | None) -> list[FireRecord]:
    """Return a job's records, newest first; see `JobStore.fires`."""
    rows = db.execute(_SQL["fires"], (job_id, _LAST if before is None else before, max(0, limit)))
    return [decode_fire(record) for (record,) in rows]
