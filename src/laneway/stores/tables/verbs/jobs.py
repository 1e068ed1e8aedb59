"""Add and change jobs. What a job does is decided in `core.jobs`.

*Race*: two callers that change one job, or decide on one fire, have read the same version. The first to commit wins;
the other finds another version in the table.
"""

from __future__ import annotations

import msgspec

from laneway.core.jobs.record import JobRecord
from laneway.errors import JobExists
from laneway.ports.jobs import AddJob, EditJob, JobChange, RemoveJob
from laneway.stores.tables.rows.jobs import as_text, find, remove, soonest
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.wakeups import wake_for_fire
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names

_SQL = sql_names("jobs")


def change(db: Database, after_commit: AfterCommit, change: JobChange, now: int) -> JobRecord | None:
    """Add, edit or remove a job; see `JobStore.change_job`."""
    match change:
        case AddJob(job):
            return _add(db, after_commit, job, now)
        case EditJob(job):
            return _edit(db, after_commit, job, now)
        case RemoveJob(job_id):
            return _remove(db, job_id)


def _add(db: Database, after_commit: AfterCommit, job: JobRecord, now: int) -> JobRecord:
    known = find(db, job.id)
    if known is not None:
        return known
    _put(db, after_commit, job, now)
    return job


def _edit(db: Database, after_commit: AfterCommit, job: JobRecord, now: int) -> JobRecord | None:
    known = find(db, job.id)
    if known is None or (known.call == job.call and job.call):
        return known
    if known.version != job.version:
        return None
    job = msgspec.structs.replace(job, version=job.version + 1)
    _put(db, after_commit, job, now)
    return job


def _remove(db: Database, job_id: str) -> JobRecord | None:
    known = find(db, job_id)
    if known is not None:
        remove(db, job_id)
    return known


def restart_time(db: Database, now: int) -> None:
    """Set the latest time at which a job was written; see `JobStore.restart_time`."""
    db.execute(_SQL["set_time"], (now,))


def _put(db: Database, after_commit: AfterCommit, job: JobRecord, now: int) -> None:
    _refuse_doubled(db, job)
    before = soonest(db)
    spec, fire_at = job.spec, job.state.fire_at
    found_by = (job.id, spec.owner, spec.name, spec.task, spec.source.value, job.is_on, fire_at)
    facts = (job.version, job.call, job.created_at, job.changed_at)
    db.execute(_SQL["put"], (*found_by, *facts, as_text(spec), as_text(job.state)))
    db.execute(_SQL["note_time"], (now,))
    wake_for_fire(db, after_commit, fire_at, before)


def _refuse_doubled(db: Database, job: JobRecord) -> None:
    name, owner = job.spec.name, job.spec.owner
    if owner is None:
        found = db.execute(_SQL["nobodys_own"], (name,)).fetchone()
    else:
        found = db.execute(_SQL["owners_own"], (owner, name)).fetchone()
    if found is not None and found[0] != job.id:
        raise JobExists(name, found[0])
