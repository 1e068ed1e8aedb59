"""Jobs and their fires for programs: plain values with a version, durations in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from laneway.core.common.instants import SECOND
from laneway.core.schedules.form import to_dict

if TYPE_CHECKING:
    from laneway.core.jobs.fires import Fire, NextFire
    from laneway.core.jobs.job import Job
    from laneway.core.jobs.record import JobSpec
    from laneway.core.schedules.preview import Preview

LENGTHS = ("max_staleness", "timeout", "backoff", "backoff_cap")
APART = ("name", "task", "schedule", "args", "enabled", "declared")  # of a spec: said otherwise, or nobody's business


def job_record(job: Job) -> dict[str, Any]:
    """Return a job with everything that was said of it, and what became of it."""
    standing = {
        name: getattr(job, name)
        for name in (
            *("enabled", "reason", "orphaned", "next_fire_at", "last_fire_at", "last_run_id", "last_state"),
            *("last_error", "failures", "held_until", "held_by", "fired", "skipped", "missed"),
            *("created_at", "changed_at"),
        )
    }
    return {"v": 1, "id": job.id, "name": job.name, **said(job), **msgspec.to_builtins(standing)}


def said(job: Job) -> dict[str, Any]:
    """Return what was said of a job: the part of it that an edit changes."""
    spec: JobSpec = job.spec
    options = {name: getattr(spec, name) for name in spec.__struct_fields__ if name not in APART}
    for name in LENGTHS:
        if options[name] is not None:
            options[name] = _seconds(options[name])
    plain: dict[str, Any] = msgspec.to_builtins(options)
    if spec.breaker is not None:
        plain["breaker"]["open_for"] = _seconds(spec.breaker.length)
    return {
        "task": job.task,
        "schedule": to_dict(job.schedule),
        "words": words(job),
        "tz": job.zone,
        "args": job.args,
        **plain,
    }


def words(job: Job) -> str:
    """Say when a job fires, with the time zone it goes by; of a period not since when it is counted."""
    from laneway.core.schedules import Every
    from laneway.core.schedules.form import from_dict

    if isinstance(job.schedule, Every):
        plain = to_dict(job.schedule)
        return from_dict({name: value for name, value in plain.items() if name not in ("anchor", "tz")}).describe()
    described = job.schedule.describe()
    return described if job.schedule.tz else f"{described} ({job.zone})"


def fire_record(fire: Fire) -> dict[str, Any]:
    """Return what became of a fire."""
    plain: dict[str, Any] = msgspec.to_builtins(fire)
    return {"v": 1, **plain}


def next_record(fire: NextFire) -> dict[str, Any]:
    """Return a fire to come."""
    from laneway.cli.jobs import next_fires

    return {"v": 1, "job": fire.job.name, "id": fire.job.id, "task": fire.job.task, **next_fires.record(plain(fire))}


def plain(fire: NextFire) -> Preview:
    """Return a job's fire as that of a schedule."""
    from laneway.core.schedules.preview import Preview

    return Preview(fire.at, fire.local, fire.note)


def _seconds(length: int) -> float:
    return length // SECOND if length % SECOND == 0 else length / SECOND
