"""Stopping in bad company: hung handlers of every kind, several who stop at once, and starts that never end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from laneway import Context, Scheduler
from laneway.core.records.states import RunState
from laneway.errors import LanewayError, WrongThread
from tests.support.stoppable_handlers import KINDS, Notes
from tests.support.waits import lingerers, soon, until

GRACE = 0.2
SLACK = 2.0


@pytest_asyncio.fixture
async def app(url: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(url, grace=GRACE) as app:
        yield app


@pytest_asyncio.fixture
async def hung(app: Scheduler, tmp_path: Path) -> AsyncIterator[Scheduler]:
    """A scheduler that is executing one run of every kind, none of which ends by itself."""
    for kind in KINDS:
        app.task(name=kind.name, process=kind.process)(kind.handler)
    notes = Notes(tmp_path)
    async with app.running():
        await app.submit_many([(kind.name, {"folder": str(tmp_path)}) for kind in KINDS])
        await until(lambda: len(notes.running()) == len(KINDS))
        yield app
        notes.let_end()
        await lingerers()


@pytest.mark.wall_clock
async def test_a_stop_returns_in_time_and_names_what_it_left_behind(hung: Scheduler) -> None:
    began = time.monotonic()
    left = await hung.stop(0.1)
    took = time.monotonic() - began

    assert took < 0.1 + GRACE + SLACK
    names = sorted([(await hung.get(run)).task for run in left])
    assert names == sorted(kind.name for kind in KINDS if not kind.can_be_stopped)


@pytest.mark.wall_clock
async def test_a_stop_at_once_kills_children_and_gives_their_runs_back(hung: Scheduler) -> None:
    began = time.monotonic()
    await hung.stop(0)
    took = time.monotonic() - began

    assert took < SLACK
    for kind in KINDS:
        if kind.process:
            [run] = await hung.runs(task=kind.name)
            assert (run.state, run.attempt, run.crashes) == (RunState.PENDING, 1, 0), kind.name


async def test_two_who_stop_at_the_same_time_get_the_same_answer(hung: Scheduler) -> None:
    one, other = await soon(asyncio.gather(hung.stop(0.1), hung.stop(0.1)))
    after = await soon(hung.stop())

    assert sorted(one) == sorted(other)
    assert len(one) == 2
    assert after == []


async def test_a_stop_that_is_cancelled_can_be_done_again(hung: Scheduler) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hung.stop(30), 0.05)

    left = await soon(hung.stop(0.05))

    assert len(left) == 2


# From inside


async def _stopped_from(app: Scheduler, task: Any) -> Any:
    ready = asyncio.Event()
    working = asyncio.create_task(app.work(ready=ready.set))
    await soon(ready.wait())
    receipt = await app.submit(task)
    await soon(working)
    assert app.status().running is False
    return await soon(app.result(receipt))


async def test_an_async_handler_may_stop_its_worker(app: Scheduler) -> None:
    @app.task
    async def work(*, ctx: Context) -> bool:
        return await app.stop() == [ctx.run_id]

    assert await _stopped_from(app, work)


async def test_what_an_async_handler_started_may_stop_its_worker(app: Scheduler) -> None:
    @app.task
    async def work(*, ctx: Context) -> bool:
        async with asyncio.TaskGroup() as group:
            stop = group.create_task(app.stop())
        return stop.result() == [ctx.run_id]

    assert await _stopped_from(app, work)


async def test_a_plain_handler_may_stop_its_worker_through_sync(app: Scheduler) -> None:
    @app.task
    def work(*, ctx: Context) -> bool:
        return app.sync.stop() == [ctx.run_id]

    try:
        assert await _stopped_from(app, work)
    finally:
        await asyncio.to_thread(app.sync.close)


async def test_an_async_handler_that_stops_through_sync_is_told_better(app: Scheduler) -> None:
    @app.task
    async def work() -> str:
        with pytest.raises(WrongThread) as caught:
            app.sync.stop()
        await app.stop()
        return str(caught.value)

    assert "await" in await _stopped_from(app, work)


async def test_a_handler_may_close_its_scheduler_only_from_outside(app: Scheduler) -> None:
    @app.task
    async def work() -> None:
        await app.stop(0.05)
        await app.stop(0.05)
        await asyncio.Event().wait()

    ready = asyncio.Event()
    working = asyncio.create_task(app.work(ready=ready.set))
    await soon(ready.wait())
    receipt = await work.submit()
    await soon(working)

    assert (await app.get(receipt)).state is RunState.PENDING


# Starting


async def test_the_same_scheduler_starts_again_and_again(app: Scheduler) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    for n in range(3):
        async with app.running():
            assert await soon(app.result(await work.submit(n=n))) == n
        assert app.status().running is False


async def test_a_start_that_hangs_can_be_cancelled(app: Scheduler) -> None:
    opening = asyncio.Event()

    @app.resource
    async def slow() -> None:
        opening.set()
        await asyncio.Event().wait()

    async def embedded() -> None:
        async with app.running():
            pytest.fail("it has not started")

    starting = asyncio.create_task(embedded())
    await soon(opening.wait())
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(starting)

    assert app.status().running is False


async def test_a_start_that_hangs_can_be_stopped(app: Scheduler) -> None:
    opening, closed = asyncio.Event(), []

    @app.resource
    async def first() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed.append("first")

    @app.resource
    async def slow() -> None:
        opening.set()
        await asyncio.Event().wait()

    working = asyncio.create_task(app.work())
    await soon(opening.wait())
    assert await soon(app.stop(0.1)) == []
    await soon(working)

    assert closed == ["first"]


async def test_a_cancelled_start_leaves_a_scheduler_that_can_start(app: Scheduler) -> None:
    @app.task
    async def work() -> str:
        return "done"

    for turns in range(20):
        starting = asyncio.create_task(app.running().__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await soon(asyncio.gather(starting, return_exceptions=True))
        await soon(app.stop(0))
        await until(lambda: not app.status().running)

    async with app.running():
        assert await soon(app.result(await work.submit())) == "done"


async def test_starting_twice_is_refused_and_disturbs_nobody(app: Scheduler) -> None:
    @app.task
    async def work() -> str:
        return "done"

    async with app.running():
        with pytest.raises(LanewayError, match="working already"):
            async with app.running():
                pytest.fail("it was started twice")
        assert await soon(app.result(await work.submit())) == "done"
