"""A worker can be given so many attempts, and ends when they are used up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway import Scheduler
from laneway.errors import BadSetting, StoreUnavailable
from laneway.testing import FakeClock
from tests.support.waits import as_time_passes, soon
from tests.support.watched_store import WatchedStore


async def test_it_ends_by_itself_after_exactly_so_many_attempts(app: Scheduler) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    receipts = [await add.submit(a=n) for n in range(10)]

    await soon(app.work(attempts=4, concurrency=3))
    states = [(await app.get(receipt)).state.value for receipt in receipts]
    await soon(app.work(attempts=6))

    assert states == ["succeeded"] * 4 + ["pending"] * 6
    assert {(await app.get(receipt)).fence for receipt in receipts} == {1}


async def test_the_last_attempts_get_all_the_time_they_take(app: Scheduler) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> str:
        started.set()
        await release.wait()
        return "done"

    receipt = await hold.submit()
    work = asyncio.create_task(app.work(attempts=1))
    await soon(started.wait())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not work.done()

    release.set()
    await soon(work)

    assert (await app.get(receipt)).result == "done"


async def test_a_stop_does_not_wait_for_what_an_allowance_would(app: Scheduler) -> None:
    started = asyncio.Event()

    @app.task
    async def hold() -> None:
        started.set()
        await asyncio.Event().wait()

    receipt = await hold.submit()
    work = asyncio.create_task(app.work(attempts=1))
    await soon(started.wait())

    await soon(app.stop(0))
    await soon(work)

    run = await app.get(receipt)
    assert (run.state.value, run.attempt, run.crashes) == ("pending", 1, 0)


async def test_a_step_whose_answer_is_lost_is_not_counted_twice(watched: WatchedStore, clock: FakeClock) -> None:
    async with Scheduler(store=watched, clock=clock) as app:

        @app.task
        async def add(a: int) -> int:
            return a

        receipts = [await add.submit(a=n) for n in range(5)]
        watched.breaks("step", StoreUnavailable("no line"), StoreUnavailable("no line"))

        await as_time_passes(clock, app.work(attempts=3, concurrency=2))

        assert [(await app.get(receipt)).state.value for receipt in receipts] == ["succeeded"] * 3 + ["pending"] * 2


@pytest.mark.parametrize("attempts", [0, -1, 1.5, True, "3"])
async def test_an_allowance_is_a_whole_number(app: Scheduler, attempts: Any) -> None:
    with pytest.raises(BadSetting, match=r"attempts is .*; it must be a whole number, 1 or more"):
        await app.work(attempts=attempts)
