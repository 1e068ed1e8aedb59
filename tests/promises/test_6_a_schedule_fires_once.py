"""Promise 6. A schedule fires once per nominal time, whatever processes and clocks do; what is missed is on record."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from laneway import Context, DailyAt, Every, Scheduler
from laneway.testing import FakeClock
from tests.support.waits import soon

START = datetime(2026, 1, 1, tzinfo=UTC)  # what a FakeClock shows first
UNHURRIED: dict[str, Any] = {"lease": 3600, "renew_every": 600}  # the clock here runs faster than any thread


class Started:
    """Notes the nominal times that runs were started for, whoever executes them."""

    def __init__(self) -> None:
        self.at: list[datetime] = []
        self.news: asyncio.Queue[None] = asyncio.Queue()

    def on(self, app: Scheduler) -> Scheduler:
        @app.task
        async def work(*, ctx: Context) -> None:
            assert ctx.job is not None
            self.at.append(ctx.job.nominal_at)
            self.news.put_nowait(None)

        return app


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_one_run_for_each_nominal_time_however_many_processes_there_are(
    url: str, clock: FakeClock, size: int
) -> None:
    started = Started()
    async with AsyncExitStack() as stack:
        first = started.on(await stack.enter_async_context(Scheduler(url, clock=clock, **UNHURRIED)))
        others = [
            Scheduler(store=await first.open(), clock=clock, **UNHURRIED)
            if url.startswith("memory")
            else await stack.enter_async_context(Scheduler(url, clock=clock, **UNHURRIED))
            for _ in range(size - 1)
        ]
        await first.jobs.create("job", Every(5), "work", overlap="allow")
        for app in (first, *map(started.on, others)):
            await stack.enter_async_context(app.running())

        for _ in range(20):
            await clock.advance(5)
            await soon(started.news.get())

    assert started.at == [START + timedelta(seconds=5 * n) for n in range(1, 21)]


async def test_what_was_missed_is_on_record(url: str, clock: FakeClock) -> None:
    started = Started()
    async with Scheduler(url, clock=clock) as app:
        started.on(app)
        await app.jobs.create("job", Every(1800), "work", misfire="once")

        await clock.advance(timedelta(hours=3))
        await app.drain()
        fired, missed = await app.jobs.runs("job")

    assert started.at == [START + timedelta(hours=3)]
    assert (fired.kind, fired.first_at) == ("fired", START + timedelta(hours=3))
    assert (missed.kind, missed.count) == ("missed", 5)
    assert (missed.first_at, missed.last_at) == (START + timedelta(minutes=30), START + timedelta(hours=2.5))


async def test_a_clock_that_is_set_back_makes_no_fire_twice(url: str, clock: FakeClock) -> None:
    started = Started()
    async with Scheduler(url, clock=clock) as app:
        started.on(app)
        await app.jobs.create("job", Every(60), "work")
        for _ in range(10):
            await clock.advance(60)
            await app.drain()

        clock.step(timedelta(minutes=-5))
        for _ in range(10):
            await clock.advance(60)
            await app.drain()

    assert started.at == [START + timedelta(minutes=n) for n in range(1, 16)]


@pytest.mark.parametrize(
    ("hour", "minute", "shown"),
    [
        pytest.param(2, 30, (3, 0), id="left out: at the first instant after the gap"),
        pytest.param(3, 30, (3, 30), id="there"),
    ],
)
async def test_a_time_that_the_clock_leaves_out_is_fired_once(
    url: str, hour: int, minute: int, shown: tuple[int, int]
) -> None:
    clock, started = FakeClock(_micros(datetime(2026, 3, 28, 12, tzinfo=UTC))), Started()
    async with Scheduler(url, clock=clock) as app:
        started.on(app)
        await app.jobs.create("job", DailyAt(hour, minute, tz="Europe/Berlin"), "work")
        await _pass_hours(app, clock, 24)

    [at] = started.at
    summer = at + timedelta(hours=2)
    assert (summer.date().isoformat(), (summer.hour, summer.minute)) == ("2026-03-29", shown)


async def test_a_time_that_the_clock_shows_twice_is_fired_once(url: str) -> None:
    clock, started = FakeClock(_micros(datetime(2026, 10, 24, 12, tzinfo=UTC))), Started()
    async with Scheduler(url, clock=clock) as app:
        started.on(app)
        await app.jobs.create("job", DailyAt(2, 30, tz="Europe/Berlin"), "work")
        await _pass_hours(app, clock, 24)

    assert started.at == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]


async def _pass_hours(app: Scheduler, clock: FakeClock, hours: int) -> None:
    for _ in range(2 * hours):
        await clock.advance(timedelta(minutes=30))
        await app.drain()


def _micros(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000_000)
