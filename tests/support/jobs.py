"""Jobs in a store: how tests make and fire them, and checks that must always hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import msgspec

from laneway.core.jobs.fire_decision import Fired, Firing, decide
from laneway.core.jobs.plan import awaits_end, created
from laneway.core.jobs.record import FireKind, FireRecord, JobRecord, JobSpec, Verdict
from laneway.core.records import codec
from laneway.core.records.run import Run
from laneway.core.schedules import Every, Schedule
from laneway.core.schedules.form import to_dict
from laneway.ports.jobs import AddJob, JobFilter
from laneway.ports.store import Store
from laneway.testing.hand import TASK

HOUR = 3600
UTC = "UTC"
_ids = count(1)


def spec_of(schedule: Schedule | None = None, **fields: Any) -> JobSpec:
    """Return the spec of a job; it fires every hour unless a schedule is given."""
    text = codec.to_json(to_dict(schedule or Every(HOUR)), "the schedule", codec.ARGS_LIMIT)
    return JobSpec(**{"name": "job", "task": TASK, "lane": "main"} | fields, schedule=text)


def new_job(now: int, schedule: Schedule | None = None, *, id: str | None = None, **fields: Any) -> JobRecord:  # noqa: A002
    """Return a job that is made now; `fields` are those of its spec."""
    job_id = id if id is not None else f"job-{next(_ids):06d}"
    return created(job_id, spec_of(schedule, **{"name": job_id} | fields), now, UTC, call=f"make {job_id}")


async def kept_job(store: Store, now: int, schedule: Schedule | None = None, **fields: Any) -> JobRecord:
    """Keep a new job; return it."""
    kept = await store.change_job(AddJob(new_job(now, schedule, **{"id": "j"} | fields)))
    assert kept is not None
    return kept


async def job_of(store: Store, job_id: str = "j") -> JobRecord | None:
    """Return a job as it stands; None if it is gone."""
    return next(iter(await store.jobs(JobFilter(named=job_id))), None)


async def standing(store: Store, job_id: str = "j") -> JobRecord:
    """Return a job that is there."""
    job = await job_of(store, job_id)
    assert job is not None, job_id
    return job


def decided(jobs: Iterable[JobRecord], now: int, zone: str = UTC, verdict: Verdict | None = None) -> list[Firing]:
    """Return the firings that are decided for these jobs, which are due."""
    return [decide(job, now, zone, verdict) for job in jobs]


async def fire_due(store: Store, zone: str = UTC, verdict: Verdict | None = None) -> list[Fired]:
    """Fire everything that is due, once; return the results."""
    due = await store.due_jobs(limit=1000)
    return await store.fire(decided(due.jobs, due.now, zone, verdict))


async def fired_runs(store: Store, job_id: str = "j") -> list[str]:
    """Return the runs of a job's records, oldest first."""
    return [record.run_id for record in await all_fires(store, job_id) if record.run_id is not None]


async def all_fires(store: Store, job_id: str = "j") -> list[FireRecord]:
    """Return all records of a job, oldest first."""
    return (await store.fires(job_id, limit=10_000))[::-1]


async def all_jobs(store: Store) -> list[JobRecord]:
    """Return all jobs, by name."""
    return await store.jobs(JobFilter(), limit=10_000)


async def check_jobs(store: Store, runs: Sequence[Run]) -> None:
    """Assert that what the store says of its jobs agrees with itself and with `runs`, which are all it has."""
    known = {run.id: run for run in runs}
    for job in await all_jobs(store):
        check_plan(job, known)
        records = await all_fires(store, job.id)
        numbers = [record.nth for record in records]
        assert numbers == list(range(job.state.records - len(records) + 1, job.state.records + 1)), (job, records)
        for record in records:
            assert (record.run_id is not None) == (record.kind is FireKind.FIRED), record
            assert record.first <= record.last, record


def check_plan(job: JobRecord, known: dict[str, Run]) -> None:
    """Assert that a job fires again if it is on, or waits for the run that says when."""
    state = job.state
    assert (state.next_at is None) == (state.fire_at is None), job
    assert state.next_at is None or state.fire_at is None or state.next_at <= state.fire_at, job
    assert job.is_on or state.next_at is None, job
    last = known.get(state.last_run or "")
    if last is not None:
        assert state.last_state is (last.state if last.ended else None), (job, last)
    if job.is_on and state.next_at is None:
        assert state.last_run is not None, job
        assert state.last_state is None, job
    if state.probe in known:
        assert not known[state.probe].ended, job
    assert not (job.is_on and awaits_end(job.spec.rule) and state.next_at is None and last is not None and last.ended)


def at_version(job: JobRecord, version: int) -> JobRecord:
    """Return the job with the version that another process has read."""
    return msgspec.structs.replace(job, version=version)
