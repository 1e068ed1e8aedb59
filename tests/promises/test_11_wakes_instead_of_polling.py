"""Promise 11. It wakes instead of polling: an idle worker starts a new run within milliseconds."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import pytest

from laneway import Scheduler
from laneway.core.lifecycle.step import Step, StepReply
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock


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


async def test_an_idle_worker_does_not_wake_itself(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    take_step = SQLiteStore.step

    async def counted(self: SQLiteStore, step: Step) -> StepReply:
        nonlocal steps
        steps += 1
        return await take_step(self, step)

    monkeypatch.setattr(SQLiteStore, "step", counted)
    async with Scheduler(file) as app:
        app.task(name="work")(lambda: "done")
        async with app.running():
            await app.result(await app.submit("work"), timeout=10)
            before = -1
            while before != steps:  # a busy machine may take its time to write the last of it
                before = steps
                await asyncio.sleep(0.5)
            await asyncio.sleep(3)  # it looks three times, and sees nothing but what it wrote itself
            idle_steps = steps - before

    assert idle_steps == 0


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
