"""Abandoned runs: what their code still does harms nobody, and what it holds in its process holds up nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from laneway import Context, LanewayError, Scheduler
from laneway.core.records.states import RunState
from laneway.errors import LeaseLost
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of
from tests.support.waits import IN_TIME, as_time_passes, passes, soon, until


@pytest_asyncio.fixture
async def app(url: str, clock: FakeClock) -> AsyncIterator[Scheduler]:
    async with Scheduler(url, clock=clock, grace=0.05, renew_every=0.2) as app:
        yield app


class Deaf:
    """A thread that listens to nobody until it is let go."""

    def __init__(self, app: Scheduler) -> None:
        self.begun, self.may_end, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.raised: list[BaseException] = []
        self.task = app.task(name="deaf")(self._handle)

    def _handle(self, *, ctx: Context) -> str:
        self.begun.set()
        try:
            assert self.may_end.wait(20)
            ctx.log("late words")
            ctx.checkpoint("late state")
        except BaseException as error:
            self.raised.append(error)
            raise
        finally:
            self.ended.set()
        return "late result"


async def test_the_thread_of_an_abandoned_run_is_not_missing_for_the_next_one(app: Scheduler) -> None:
    deaf = Deaf(app)

    @app.task
    def plain() -> str:
        return "had a thread"

    async with app.running(concurrency=1):
        receipt = await deaf.task.submit()
        await until(deaf.begun.is_set)
        await app.cancel(receipt, abandon=True)
        value = await soon(app.result(await plain.submit()))
        deaf.may_end.set()
        await until(deaf.ended.is_set)

    assert value == "had a thread"


async def test_what_an_abandoned_handler_still_says_saves_and_returns_is_refused(
    app: Scheduler, clock: FakeClock
) -> None:
    deaf = Deaf(app)
    async with app.running():
        receipt = await deaf.task.submit()
        await until(deaf.begun.is_set)
        run = await app.cancel(receipt, abandon=True)
        deaf.may_end.set()
        await until(deaf.ended.is_set)
        await passes(clock, 1, step=0.05)  # for what it said, if anybody took it

    assert (run.state, run.reason) == (RunState.CANCELLED, "abandoned")
    assert await app.get(receipt) == run
    assert await kinds_of(app, receipt) == ["started", "cancel_requested", "done"]
    assert [type(error) for error in deaf.raised] == [LeaseLost]


async def test_a_checkpoint_of_an_abandoned_handler_whose_worker_has_gone_raises_instead_of_waiting(
    app: Scheduler,
) -> None:
    deaf = Deaf(app)
    async with app.running():
        receipt = await deaf.task.submit()
        await until(deaf.begun.is_set)
        await app.cancel(receipt, abandon=True)
        await until(lambda: not app.executing)

    deaf.may_end.set()
    await until(deaf.ended.is_set)

    assert [type(error) for error in deaf.raised] == [LeaseLost]


def test_a_checkpoint_of_a_thread_whose_loop_has_closed_raises_instead_of_waiting(tmp_path: Path) -> None:
    app = Scheduler(f"sqlite:///{tmp_path / 'laneway.db'}", grace=0)
    deaf = Deaf(app)

    async def main() -> None:
        async with app.running():
            await deaf.task.submit()
            await until(deaf.begun.is_set)
            await app.stop(0)

    asyncio.run(main())
    deaf.may_end.set()

    assert deaf.ended.wait(10)
    assert len(deaf.raised) == 1
    assert isinstance(deaf.raised[0], LanewayError)


async def test_a_handler_told_twice_to_stop_is_reported_once(
    app: Scheduler, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    @app.task(timeout=0.1, retry=None)
    async def swallows() -> None:
        begun.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    async with app.running():
        receipt = await swallows.submit()
        await soon(begun.wait())
        await app.cancel(receipt)
        await passes(clock, 0.4, step=0.02)  # the time-out and both graces
        may_end.set()
        run = await soon(app.wait(receipt))

    assert run.state is RunState.CANCELLED
    assert (await kinds_of(app, receipt)).count("stuck") == 1
    assert sum("is stuck" in record.message for record in caplog.records) == 1


async def test_whoever_hears_of_stuck_runs_and_crashes_keeps_no_time_out_from_coming(
    app: Scheduler, clock: FakeClock
) -> None:
    release = threading.Event()

    @app.task(timeout=0.05, retry=None)
    def deaf() -> None:
        release.wait(IN_TIME)

    @app.task(timeout=0.5, retry=None)
    async def slow() -> None:
        await asyncio.Event().wait()

    def heard(_: object) -> None:
        raise RuntimeError("a bug of the listener")

    ready = asyncio.Event()
    working = asyncio.create_task(app.work(ready=ready.set, stuck=heard))
    await soon(ready.wait())
    receipts = await app.submit_many([("deaf", {}), ("slow", {})])
    await as_time_passes(clock, until(lambda: len(app.status().stuck) == 1), step=0.05)
    slow_one = await as_time_passes(clock, app.wait(receipts[1]), step=0.05)
    release.set()
    runs = [await as_time_passes(clock, app.wait(receipts[0])), slow_one]
    await app.stop()
    await working

    assert [run.reason for run in runs] == ["timed_out", "timed_out"]
