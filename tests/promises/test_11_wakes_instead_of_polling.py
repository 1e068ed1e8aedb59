"""Promise 11. It wakes instead of polling: an idle worker starts a new run within milliseconds."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import pytest

from laneway import Scheduler
from laneway.scheduler import store_at
from laneway.settings import Settings
from laneway.testing import FakeClock
from tests.support.waits import passes, soon
from tests.support.watched_store import WatchedStore


async def test_an_idle_worker_starts_a_run_though_no_time_passes(url: str, clock: FakeClock) -> None:
    async with Scheduler(url, clock=clock) as app:
        app.task(name="work")(lambda: "woken")
        async with app.running():
            results = [await app.result(await app.submit("work"), timeout=10) for _ in range(10)]

    # Whoever polls sleeps on the clock in between, and this clock stands still.
    assert results == ["woken"] * 10
    assert clock.monotonic() == 0


async def test_a_delayed_run_starts_on_time_though_nobody_looks_for_it(clock: FakeClock) -> None:
    app = Scheduler("memory://", clock=clock)
    app.task(name="work")(lambda: "on time")

    async with app.running():
        receipt = await app.submit("work", delay=3600)
        await clock.advance(3599.999)
        before = await app.get(receipt)
        await clock.advance(0.001)
        run = await app.wait(receipt)

    assert before.started_at is None
    assert run.started_at == run.due_at


async def test_an_idle_worker_does_not_wake_itself(file: str, clock: FakeClock) -> None:
    store = WatchedStore(store_at(file, clock, Settings()))
    async with Scheduler(store=store, clock=clock) as app:
        app.task(name="work")(lambda: "done")
        async with app.running():
            await soon(app.result(await app.submit("work")))
            await passes(clock, 2)
            steps = store.calls["step"]
            await passes(clock, 10)  # it looks ten times, and sees nothing but what it wrote itself
            idle_steps = store.calls["step"] - steps
    await store.close()

    assert store.calls["look"] >= 10
    assert steps > 0
    assert idle_steps == 0


@pytest.mark.wall_clock
async def test_a_run_that_another_scheduler_submits_starts_within_milliseconds(file: str) -> None:
    delays = []

    def work() -> float:
        return time.time()

    async with Scheduler(file) as web, Scheduler(file) as worker:
        for app in (web, worker):
            app.task(work)
        async with worker.running():
            for _ in range(20):
                submitted = time.time()
                delays.append(await web.result(await web.submit("work"), timeout=10) - submitted)
                await asyncio.sleep(0)

    # Polling each second would take half a second in the middle; this machine may be busy.
    assert median(delays) < 0.1
