"""What tests of jobs share: processes on one store, a note of what was started, and a job nobody can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from laneway import Context, Scheduler
from laneway.core.common.instants import instant
from laneway.core.jobs.plan import created
from laneway.core.jobs.record import FireKind, FireRecord, JobRecord
from laneway.core.schedules import Every
from laneway.ports.jobs import AddJob, EditJob
from laneway.testing import FakeClock
from tests.engine.support import fires_of, scheduler_on, soon
from tests.support.jobs import spec_of, standing

START = datetime(2026, 1, 1, tzinfo=UTC)  # what a FakeClock shows first
MINUTE = timedelta(minutes=1)
MINUTELY = Every(60, anchor=START)


class Started:
    """Notes of runs that jobs started, on any number of schedulers: of which job, for what time, and when."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, datetime, datetime]] = []

    def on(self, app: Scheduler, **options: Any) -> Scheduler:
        """Give a scheduler the task `work`, which notes its start."""

        @app.task(name="work", **options)
        async def work(*, ctx: Context) -> None:
            assert ctx.job is not None
            self.notes.append((ctx.job.name, ctx.job.nominal_at, instant(app._clock.now())))

        return app

    def of(self, job: str) -> list[datetime]:
        """Return the nominal times for which the job's runs were started, in order of their starts."""
        return [nominal for name, nominal, _ in self.notes if name == job]

    def __len__(self) -> int:
        return len(self.notes)


@asynccontextmanager
async def fleet(app: Scheduler, url: str, clock: FakeClock, started: Started, size: int) -> AsyncIterator[None]:
    """Let `size` schedulers work on one store, `app` the first of them."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.running())
        for _ in range(size - 1):
            memory = url.startswith("memory")
            other = scheduler_on(app._store, clock) if memory else Scheduler(url, clock=clock)
            started.on(other)
            if not memory:
                await stack.enter_async_context(other)
            await stack.enter_async_context(other.running())
        yield


async def counted(app: Scheduler, job: str) -> dict[str, int]:
    """Return how many of a job's fires were fired, skipped and missed, by its records."""
    counts = dict.fromkeys((kind.value for kind in FireKind), 0)
    for record in await fires_of(app, job):
        counts[record.kind.value] += record.count
    return {kind: count for kind, count in counts.items() if count}


async def add_unreadable_job(app: Scheduler, name: str) -> JobRecord:
    """Keep a minutely job whose schedule a newer laneway wrote."""
    job = created(name, spec_of(MINUTELY, name=name, task="work"), app._clock.now(), "UTC")
    newer = msgspec.structs.replace(job.spec, schedule='{"v": 99, "kind": "lunar"}')
    kept = await (await app.open()).change_job(AddJob(msgspec.structs.replace(job, spec=newer)))
    assert kept is not None
    return kept


async def recorded(app: Scheduler, job: str, number: int) -> list[FireRecord]:
    """Return the records of a job, oldest first, once there are so many."""

    async def looking() -> list[FireRecord]:
        while len(records := await fires_of(app, job)) < number:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)
        return records

    return await soon(looking())


async def planned_again(app: Scheduler, job: str) -> None:
    """Wait until a job has a next fire."""
    store = await app.open()

    async def looking() -> None:
        while (await standing(store, job)).state.next_at is None:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)

    await soon(looking())


async def change_job(app: Scheduler, job: str, change: Callable[[JobRecord], JobRecord]) -> None:
    """Change a job as it stands, again if somebody else was faster."""
    store = await app.open()
    while await store.change_job(EditJob(change(await standing(store, job)))) is None:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
