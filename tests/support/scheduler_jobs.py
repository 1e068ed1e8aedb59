"""Jobs of schedulers under test: processes on one store, notes of what was started, and firing without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from laneway import Context, Scheduler
from laneway.core.common.instants import instant
from laneway.core.jobs.fire_decision import decide
from laneway.core.jobs.job import Job
from laneway.core.jobs.plan import created
from laneway.core.jobs.record import FireKind, FireRecord, JobRecord, JobSpec, Source
from laneway.core.schedules import Every, Schedule
from laneway.engine.jobs import specs
from laneway.engine.jobs.environment import JobEnvironment
from laneway.ports.jobs import AddJob, EditJob
from laneway.testing import FakeClock
from tests.support.jobs import all_fires, spec_of, standing
from tests.support.waits import eventually

START = datetime(2026, 1, 1, tzinfo=UTC)  # when a FakeClock starts: a Thursday
MINUTE = timedelta(minutes=1)
MINUTELY = Every(60, anchor=START)


def with_tasks(app: Scheduler) -> Scheduler:
    """Register what the jobs of these tests start."""

    @app.task
    def summarize(doc: str, pages: int = 1) -> str:
        """Say in short what a document says."""
        return f"summary of {doc}" * pages

    @app.task(retry=None)
    def fail() -> None:
        raise ValueError("it is broken")

    @app.task
    def cleanup() -> int:
        return 3

    return app


async def fire_due(app: Scheduler) -> int:
    """Fire all that is due, once, as a process that knows no condition; return how many jobs that were."""
    store = await app.open()
    due = await store.due_jobs()
    environment = JobEnvironment(app.settings.tz)
    firings = [
        decide(job, due.now, environment.zone(job.spec), await environment.verdict(job.spec)) for job in due.jobs
    ]
    return sum(fired.won for fired in await store.fire(firings))


def at(job: Job) -> str:
    """Return when a job fires next."""
    return "never" if job.next_fire_at is None else f"{job.next_fire_at:%a %d %H:%M}"


def in_file(
    app: Scheduler, name: str, schedule: Any, task: str = "cleanup", *, origin: str = "laneway.toml", **options: Any
) -> JobSpec:
    """Return a job as a file declares it."""
    registry = app.tasks.registry
    return specs.spec_of(registry, name, schedule, task, None, options, source=Source.FILE, origin=origin)


class Started:
    """Notes of runs that jobs started, on any number of schedulers: of which job, for what time, and when."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.notes: list[tuple[str, datetime, datetime]] = []

    def on(self, app: Scheduler, **options: Any) -> Scheduler:
        """Give a scheduler the task `work`, which notes its start."""

        @app.task(name="work", **options)
        async def work(*, ctx: Context) -> None:
            assert ctx.job is not None
            self.notes.append((ctx.job.name, ctx.job.nominal_at, instant(self._clock.now())))

        return app

    def of(self, job: str) -> list[datetime]:
        """Return the nominal times for which the job's runs were started, in order of their starts."""
        return [nominal for name, nominal, _ in self.notes if name == job]

    def __len__(self) -> int:
        return len(self.notes)


@asynccontextmanager
async def fleet(app: Scheduler, clock: FakeClock, started: Started, size: int) -> AsyncIterator[None]:
    """Let `size` schedulers work on one store, `app` the first of them."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.running())
        for _ in range(size - 1):
            other = await stack.enter_async_context(await another(app, clock))
            await stack.enter_async_context(started.on(other).running())
        yield


async def another(app: Scheduler, clock: FakeClock, **settings: Any) -> Scheduler:
    """Return another scheduler on the same content: by the same address, or on the same store if that is in memory."""
    if app.url.startswith("memory"):
        return Scheduler(store=await app.open(), clock=clock, **settings)
    return Scheduler(app.url, clock=clock, **settings)


async def counted(app: Scheduler, job: str) -> dict[str, int]:
    """Return how many of a job's fires were fired, skipped and missed, by its records."""
    counts = dict.fromkeys((kind.value for kind in FireKind), 0)
    for record in await fires_of(app, job):
        counts[record.kind.value] += record.count
    return {kind: count for kind, count in counts.items() if count}


async def add_unreadable_job(app: Scheduler, name: str) -> JobRecord:
    """Keep a minutely job whose schedule a newer laneway wrote."""
    store = await app.open()
    job = created(name, spec_of(MINUTELY, name=name, task="work"), (await store.due_jobs()).now, "UTC")
    newer = msgspec.structs.replace(job.spec, schedule='{"v": 99, "kind": "lunar"}')
    kept = await store.change_job(AddJob(msgspec.structs.replace(job, spec=newer)))
    assert kept is not None
    return kept


async def recorded(app: Scheduler, job: str, number: int) -> list[FireRecord]:
    """Return the records of a job, oldest first, once there are so many."""
    return await eventually(lambda: fires_of(app, job), lambda records: len(records) >= number)


async def planned_again(app: Scheduler, job: str) -> None:
    """Wait until a job has a next fire."""
    store = await app.open()
    await eventually(lambda: standing(store, job), lambda found: found.state.next_at is not None)


async def change_job(app: Scheduler, job: str, change: Callable[[JobRecord], JobRecord]) -> None:
    """Change a job as it stands, again if somebody else was faster."""
    store = await app.open()
    while await store.change_job(EditJob(change(await standing(store, job)))) is None:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)


async def add_job(on: Scheduler, name: str, schedule: Schedule, *, zone: str = "UTC", **said: Any) -> JobRecord:
    """Make a job of the task `work` as of now; return it as it is kept."""
    store = await on.open()
    spec = spec_of(schedule, **{"name": name, "task": "work"} | said)
    kept = await store.change_job(AddJob(created(name, spec, (await store.due_jobs()).now, zone)))
    assert kept is not None
    return kept


async def fires_of(on: Scheduler, name: str) -> list[FireRecord]:
    """Return the records of a job, oldest first."""
    return await all_fires(await on.open(), name)
