"""Starting: one worker at a time, on a loop that lives, and nothing is left when it does not come to it."""

from __future__ import annotations

import asyncio

import pytest

from laneway import BadSetting, Scheduler
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.support.waits import soon, turns
from tests.support.watched_store import WatchedStore


async def test_two_workers_are_not_started_by_two_calls_at_the_same_time(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = Scheduler(store=watched, clock=clock)
    watched.hold_back("open")
    calls = [asyncio.create_task(app.work()) for _ in range(2)]
    await turns()
    watched.let_go("open")
    await turns()
    workers = len(await watched.workers())
    await app.stop(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    assert workers == 1


async def test_a_start_that_is_cancelled_leaves_nothing_working(watched: WatchedStore, clock: FakeClock) -> None:
    app = Scheduler(store=watched, clock=clock)
    watched.hold_back("open")

    async def block() -> None:
        async with app.running():
            pytest.fail("it was cancelled")

    entering = asyncio.create_task(block())
    await turns()
    entering.cancel()
    await asyncio.gather(entering, return_exceptions=True)
    watched.let_go("open")
    await turns()

    workers = await watched.workers()
    await app.stop(0)
    assert workers == []


def test_a_scheduler_can_work_again_after_its_loop_was_abandoned() -> None:
    clock = FakeClock()
    app = Scheduler(store=MemoryStore(clock), clock=clock)
    app.task(name="work")(lambda: "done")
    abandoned = asyncio.new_event_loop()
    working = abandoned.create_task(app.work())
    for _ in range(20):
        abandoned.call_soon(abandoned.stop)
        abandoned.run_forever()
    abandoned.set_exception_handler(lambda *_: None)
    working._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio warns, and it is the point
    for task in asyncio.all_tasks(abandoned):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - as above
    abandoned.close()

    async def again() -> str:
        receipt = await app.submit("work")
        async with app.running():
            return str(await soon(app.result(receipt)))

    assert asyncio.run(again()) == "done"


async def test_a_stop_that_comes_while_the_worker_starts_stops_it(watched: WatchedStore, clock: FakeClock) -> None:
    app = Scheduler(store=watched, clock=clock)
    opening = watched.hold_back("open")
    working = asyncio.create_task(app.work())
    await soon(opening.wait())

    stopping = asyncio.create_task(app.stop())
    await turns()
    watched.let_go("open")
    await turns()
    ended = working.done()
    working.cancel()
    await asyncio.gather(working, stopping, return_exceptions=True)

    assert ended


async def test_a_task_that_comes_after_the_start_is_refused(app: Scheduler) -> None:
    async with app.running():
        with pytest.raises(BadSetting) as caught:
            app.task(name="late")(lambda: None)
    app.task(name="late")(lambda: None)

    assert str(caught.value) == "this scheduler is working already; register its tasks before it starts"
