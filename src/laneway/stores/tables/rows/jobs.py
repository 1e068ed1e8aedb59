"""Jobs and the records of their fires, as they are stored."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.core.jobs.record import FIRES_KEPT, FireRecord, JobRecord, JobSpec, JobState
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, sql_names

_SQL = sql_names("jobs")
_LAST = 2**62  # greater than every record's number

_spec = msgspec.json.Decoder(JobSpec).decode
_state = msgspec.json.Decoder(JobState).decode
decode_fire = msgspec.json.Decoder(FireRecord).decode


def find(db: Database, job_id: str) -> JobRecord | None:
    """Return the job of that id."""
    row = db.execute(_SQL["job"], (job_id,)).fetchone()
    return None if row is None else as_job(row)


def soonest(db: Database) -> int | None:
    """Return the fire time of the job that is due first."""
    [[fire_at]] = db.execute(_SQL["soonest"]).fetchall()
    return None if fire_at is None else int(fire_at)


def remove(db: Database, job_id: str) -> None:
    """Delete a job and its records."""
    db.execute(_SQL["drop_fires"], (job_id, _LAST))
    db.execute(_SQL["remove"], (job_id,))


def put_fires(db: Database, records: Mapping[tuple[str, int], FireRecord]) -> None:
    """Write these records, by job and number, and delete all but the newest of each job."""
    db.insert(_SQL["put_fire"], [(*key, record.run_id, as_text(record)) for key, record in records.items()])
    newest = {job: nth - FIRES_KEPT for job, nth in records}
    db.each(_SQL["drop_fires"], [(job, last) for job, last in newest.items() if last > 0])


def as_job(row: Row) -> JobRecord:
    """Return the job that these columns hold."""
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
    """Return the JSON that is stored of it."""
    return msgspec.json.encode(body).decode()
