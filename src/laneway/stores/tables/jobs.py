"""Jobs in their table: adding, changing and listing them, and finding those that are due.

What they do is decided in `core.jobs`. *Race*: two who change one job, or decide on one fire, have read the same
version; whichever commits first wins, and the other finds another version there.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.core.jobs.record import FIRES_KEPT, FireRecord, JobRecord, JobSpec, JobState
from laneway.errors import JobExists
from laneway.ports.jobs import AddJob, DueJobs, EditJob, JobChange, JobFilter, RemoveJob
from laneway.stores.tables.database import Database
from laneway.stores.tables.runtime.after_commit import Effects
from laneway.stores.tables.runtime.wakeups import wake_for_fire
from laneway.stores.tables.statements import Row, sql_names

_SQL = sql_names("jobs")
_LAST = 2**62  # behind every number of a record

_spec = msgspec.json.Decoder(JobSpec).decode
_state = msgspec.json.Decoder(JobState).decode
decode_fire = msgspec.json.Decoder(FireRecord).decode


def change(db: Database, effects: Effects, change: JobChange, now: int) -> JobRecord | None:
    """Add, edit or remove a job; see `JobStore.change_job`."""
    match change:
        case AddJob(job):
            return _add(db, effects, job, now)
        case EditJob(job):
            return _edit(db, effects, job, now)
        case RemoveJob(job_id):
            return _remove(db, job_id)


def _add(db: Database, effects: Effects, job: JobRecord, now: int) -> JobRecord:
    known = find(db, job.id)
    if known is not None:
        return known
    _put(db, effects, job, now)
    return job


def _edit(db: Database, effects: Effects, job: JobRecord, now: int) -> JobRecord | None:
    known = find(db, job.id)
    if known is None or (known.call == job.call and job.call):
        return known
    if known.version != job.version:
        return None
    job = msgspec.structs.replace(job, version=job.version + 1)
    _put(db, effects, job, now)
    return job


def _remove(db: Database, job_id: str) -> JobRecord | None:
    known = find(db, job_id)
    if known is not None:
        remove(db, job_id)
    return known


def remove(db: Database, job_id: str) -> None:
    """Forget a job and its records."""
    db.execute(_SQL["drop_fires"], (job_id, _LAST))
    db.execute(_SQL["remove"], (job_id,))


def find(db: Database, job_id: str) -> JobRecord | None:
    """Return the job of that id."""
    row = db.execute(_SQL["job"], (job_id,)).fetchone()
    return None if row is None else as_job(row)


def listed(db: Database, wanted: JobFilter, limit: int, after: tuple[str, str]) -> list[JobRecord]:
    """Return jobs by name; see `JobStore.jobs`."""
    asked = msgspec.structs.asdict(wanted) | {"limit": max(0, limit), "name": after[0], "id": after[1]}
    statement = "named" if wanted.named is not None else "owned" if wanted.owner is not None else "listed"
    return [as_job(row) for row in db.execute(_SQL[statement], asked)]


def due(db: Database, limit: int, after: tuple[int, str], now: int) -> DueJobs:
    """Return what is due; see `JobStore.due_jobs`."""
    found = [as_job(row) for row in db.execute(_SQL["due"], (now, *after, max(0, limit)))]
    [[next_at, latest]] = db.execute(_SQL["times"], (now,)).fetchall()
    return DueJobs(now, found, next_at, max(0, latest - now))


def soonest(db: Database) -> int | None:
    """Return when the first of all is due."""
    [[fire_at]] = db.execute(_SQL["soonest"]).fetchall()
    return None if fire_at is None else int(fire_at)


def fires(db: Database, job_id: str, limit: int, before: int | None) -> list[FireRecord]:
    """Return a job's records, newest first; see `JobStore.fires`."""
    rows = db.execute(_SQL["fires"], (job_id, _LAST if before is None else before, max(0, limit)))
    return [decode_fire(record) for (record,) in rows]


def restart_time(db: Database, now: int) -> None:
    """Take this for the latest time; see `JobStore.restart_time`."""
    db.execute(_SQL["set_time"], (now,))


def as_job(row: Row) -> JobRecord:
    """Return a job of its columns."""
    job_id, spec, state, created_at, changed_at, version, call = row
    return JobRecord(
        id=job_id,
        spec=_spec(spec),
        state=_state(state),
        created_at=created_at,
        changed_at=changed_at,
        version=version,
        call=call,
    )


def as_text(body: JobSpec | JobState | FireRecord) -> str:
    """Return what is kept as JSON."""
    return msgspec.json.encode(body).decode()


def _put(db: Database, effects: Effects, job: JobRecord, now: int) -> None:
    _refuse_doubled(db, job)
    before = soonest(db)
    spec, fire_at = job.spec, job.state.fire_at
    found_by = (job.id, spec.owner, spec.name, spec.task, spec.source.value, job.is_on, fire_at)
    facts = (job.version, job.call, job.created_at, job.changed_at)
    db.execute(_SQL["put"], (*found_by, *facts, as_text(spec), as_text(job.state)))
    db.execute(_SQL["note_time"], (now,))
    wake_for_fire(db, effects, fire_at, before)


def _refuse_doubled(db: Database, job: JobRecord) -> None:
    name, owner = job.spec.name, job.spec.owner
    if owner is None:
        found = db.execute(_SQL["nobodys_own"], (name,)).fetchone()
    else:
        found = db.execute(_SQL["owners_own"], (owner, name)).fetchone()
    if found is not None and found[0] != job.id:
        raise JobExists(name, found[0])


def keep(db: Database, records: Mapping[tuple[str, int], FireRecord]) -> None:
    """Write these records, by job and number; of each job the newest are kept."""
    db.insert(_SQL["put_fire"], [(*key, record.run_id, as_text(record)) for key, record in records.items()])
    lasts = {job: nth - FIRES_KEPT for job, nth in records}
    db.each(_SQL["drop_fires"], [(job, last) for job, last in lasts.items() if last > 0])
