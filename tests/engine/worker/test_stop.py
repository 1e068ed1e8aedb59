"""Stop: claim nothing, wait, cancel, give back uncharged; twice, idle, at once, and with a thread that does not end."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from laneway import Context, Scheduler, StoreUnavailable
from laneway.core.records.states import RunState
from laneway.testing import FakeClock, Hand
from tests.support.run_logs import kinds_of
from tests.support.waits import as_time_passes, lingerers, soon, timers, turns, until
from tests.support.watched_store import WatchedStore


class Busy:
    """A task whose handler stays until it is let go, and what became of it."""

    def __init__(self, app: Scheduler) -> None:
        self.started, self.go_on = asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []
        self.task = app.task(name="busy")(self._busy)

    async def _busy(self, n: int = 0, *, ctx: Context) -> str:
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("returned")
        return f"fence {ctx.fence}"


@pytest.fixture
def busy(app: Scheduler) -> Busy:
    return Busy(app)


async def test_stop_waits_for_what_is_running(app: Scheduler, busy: Busy) -> None:
    receipt = await busy.task.submit()
    work = asyncio.create_task(app.work())
    await soon(busy.started.wait())

    stop = asyncio.create_task(app.stop(30))
    await turns()
    stopped_early = stop.done()
    busy.go_on.set()
    await soon(asyncio.gather(stop, work))

    assert not stopped_early
    assert busy.ended == ["returned"]
    assert await app.result(receipt) == "fence 1"


async def test_while_it_stops_it_claims_nothing(app: Scheduler, busy: Busy) -> None:
    await busy.task.submit()
    work = asyncio.create_task(app.work())
    await soon(busy.started.wait())
    stop = asyncio.create_task(app.stop(30))
    await turns()

    late = await busy.task.submit()
    await turns()
    busy.go_on.set()
    await soon(asyncio.gather(stop, work))

    assert (await app.get(late)).fence == 0
    assert busy.ended == ["returned"]


@pytest.mark.parametrize("timeout", [0, 0.01])
async def test_what_does_not_end_in_time_is_cancelled_and_given_back_uncharged(
    app: Scheduler, busy: Busy, timeout: float
) -> None:
    receipts = [await busy.task.using(session="chat").submit(), await busy.task.using(session="chat").submit()]
    work = asyncio.create_task(app.work())
    await soon(busy.started.wait())

    await soon(app.stop(timeout))
    await soon(work)

    run = await app.get(receipts[0])
    assert busy.ended == ["cancelled"]
    assert (run.state, run.attempt, run.fence, run.crashes) == (RunState.PENDING, 1, 1, 0)
    assert (run.worker, run.error, run.due_at >= run.accepted_at) == (None, None, True)
    assert await kinds_of(app, receipts[0]) == ["started", "released"]


async def test_what_was_given_back_is_executed_by_the_next_worker(app: Scheduler, busy: Busy) -> None:
    receipt = await busy.task.submit()
    async with app.running():
        await soon(busy.started.wait())
        await app.stop(0)
    busy.go_on.set()

    async with app.running():
        value = await soon(app.result(receipt))

    assert value == "fence 2"
    assert (await app.get(receipt)).attempt == 1
    assert await kinds_of(app, receipt) == ["started", "released", "started", "result", "done"]


async def test_events_of_a_handler_that_is_given_back_are_kept(app: Scheduler) -> None:
    started = asyncio.Event()

    @app.task
    async def work(*, ctx: Context) -> None:
        ctx.log("before")
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ctx.log("on the way out")

    receipt = await work.submit()
    async with app.running():
        await soon(started.wait())
        await app.stop(0)

    assert await kinds_of(app, receipt) == ["started", "log", "log", "released"]


async def test_a_handler_gets_the_grace_to_clean_up(url: str, clock: FakeClock) -> None:
    cleaned = []
    started = asyncio.Event()
    async with Scheduler(url, clock=clock, grace=5) as app:

        @app.task
        async def work() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                await turns(20)
                cleaned.append(True)

        receipt = await work.submit()
        async with app.running():
            await soon(started.wait())
            await app.stop(0.001)

        assert cleaned == [True]
        assert (await app.get(receipt)).state is RunState.PENDING


async def test_a_handler_that_will_not_stop_keeps_its_lease_and_does_not_hold_up_the_stop(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = Scheduler(store=watched, clock=clock, grace=0.01)
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def stubborn() -> None:
        started.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    receipt = await stubborn.submit()
    work = asyncio.create_task(app.work())
    await soon(started.wait())
    await soon(app.stop(0.01))
    await soon(work)

    run = await app.get(receipt)
    assert run.state is RunState.RUNNING
    assert watched.calls["leave"] == 0
    go_on.set()
    await turns()


async def test_a_stop_while_idle_returns_at_once(app: Scheduler) -> None:
    work = asyncio.create_task(app.work())
    await turns()

    await soon(app.stop())
    await soon(work)

    assert await (await app.open()).workers() == []


async def test_a_stop_without_a_worker_does_nothing(app: Scheduler) -> None:
    assert await soon(app.stop()) == []
    assert await soon(app.stop(0)) == []


async def test_stopping_twice_at_once_is_stopping_once(app: Scheduler, busy: Busy) -> None:
    receipt = await busy.task.submit()
    work = asyncio.create_task(app.work())
    await soon(busy.started.wait())

    await soon(asyncio.gather(app.stop(0.05), app.stop(0), app.stop(0.01)))
    await soon(work)

    assert busy.ended == ["cancelled"]
    assert await kinds_of(app, receipt) == ["started", "released"]


async def test_a_second_stop_can_hurry_the_first(app: Scheduler, busy: Busy) -> None:
    await busy.task.submit()
    work = asyncio.create_task(app.work())
    await soon(busy.started.wait())

    patient = asyncio.create_task(app.stop(3600))
    await turns()
    await soon(app.stop(0))
    await soon(asyncio.gather(patient, work))

    assert busy.ended == ["cancelled"]


async def test_the_same_scheduler_can_be_started_again(app: Scheduler, busy: Busy) -> None:
    busy.go_on.set()
    values = []
    for _ in range(3):
        async with app.running():
            values.append(await soon(app.result(await busy.task.submit())))

    assert values == ["fence 1"] * 3


async def test_work_that_is_cancelled_gives_back_what_it_had(app: Scheduler, busy: Busy) -> None:
    receipt = await busy.task.submit()
    work = asyncio.create_task(app.work())
    await soon(busy.started.wait())

    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(work)

    run = await app.get(receipt)
    assert (run.state, run.attempt) == (RunState.PENDING, 1)
    assert await kinds_of(app, receipt) == ["started", "released"]
    assert await (await app.open()).workers() == []


async def test_leaving_the_block_with_an_error_stops_the_worker_and_raises_it(app: Scheduler, busy: Busy) -> None:
    busy.go_on.set()

    with pytest.raises(ZeroDivisionError):
        async with app.running():
            raise ZeroDivisionError

    assert await (await app.open()).workers() == []


async def test_a_start_that_fails_is_raised_and_leaves_nothing_working(lossy: Scheduler, watched: WatchedStore) -> None:
    watched.breaks("register", RuntimeError("no such table"))

    with pytest.raises(RuntimeError, match="no such table"):
        async with lossy.running():
            pytest.fail("it must not start")

    assert not lossy.status().running


async def test_a_stop_with_the_store_out_of_reach_ends_and_says_so(watched: WatchedStore, clock: FakeClock) -> None:
    app = Scheduler(store=watched, clock=clock)
    busy = Busy(app)
    await busy.task.submit()
    work = asyncio.create_task(app.work())
    await soon(busy.started.wait())
    watched.fail("step", times=1000)

    stop = asyncio.create_task(app.stop(0))
    await turns()
    await clock.advance(10)
    await soon(stop)

    with pytest.raises(StoreUnavailable):
        await soon(work)


# Threads


class Thread:
    """A plain handler that stays until it is let go."""

    def __init__(self, app: Scheduler) -> None:
        self.started, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.task = app.task(name="plain")(self._plain)

    def _plain(self) -> str:
        self.started.set()
        self.go_on.wait(20)
        self.ended.set()
        return "done"


@pytest.fixture
def thread(app: Scheduler) -> Any:
    thread = Thread(app)
    yield thread
    thread.go_on.set()


async def test_a_thread_that_ends_in_time_is_waited_for(app: Scheduler, thread: Thread) -> None:
    receipt = await thread.task.submit()
    async with app.running():
        await asyncio.to_thread(thread.started.wait, 5)
        stop = asyncio.create_task(app.stop(10))
        await turns()
        thread.go_on.set()
        await soon(stop)

    assert await app.result(receipt) == "done"


async def test_a_thread_that_does_not_end_does_not_hold_up_the_stop_and_keeps_its_lease(
    url: str, clock: FakeClock
) -> None:
    async with Scheduler(url, clock=clock, grace=0.02) as app:
        thread = Thread(app)
        receipt = await thread.task.submit()
        work = asyncio.create_task(app.work())
        await asyncio.to_thread(thread.started.wait, 5)

        await soon(app.stop(0.01))
        await soon(work)

        run = await app.get(receipt)
        assert not thread.ended.is_set()
        assert (run.state, run.fence) == (RunState.RUNNING, 1)
        thread.go_on.set()
        await asyncio.to_thread(thread.ended.wait, 5)
        await turns()


async def test_a_thread_is_not_run_beside_itself_after_a_stop(url: str, clock: FakeClock) -> None:
    async with Scheduler(url, clock=clock) as app:
        thread = Thread(app)
        await thread.task.submit()
        work = asyncio.create_task(app.work())
        await asyncio.to_thread(thread.started.wait, 5)
        await soon(app.stop(0))
        await soon(work)
        thread.started.clear()

        await soon(app.drain())

        assert not thread.started.is_set()
        thread.go_on.set()
        await asyncio.to_thread(thread.ended.wait, 5)
        await turns()


async def test_stop_tells_which_runs_it_left_behind(url: str, clock: FakeClock) -> None:
    async with Scheduler(url, clock=clock, grace=0.01) as app:
        thread = Thread(app)
        receipt = await thread.task.submit()
        async with app.running():
            await asyncio.to_thread(thread.started.wait, 5)
            executing = app.executing
            left = await soon(app.stop(0.01))
        thread.go_on.set()
        run = await soon(app.wait(receipt))

        assert executing == left == [receipt.run_id]
        assert app.executing == []
        assert (run.state, run.result, run.crashes) == (RunState.SUCCEEDED, "done", 0)


async def test_stop_that_leaves_nothing_behind_says_so(app: Scheduler, busy: Busy) -> None:
    await busy.task.submit()
    async with app.running():
        await soon(busy.started.wait())

        assert await soon(app.stop(0.01)) == []


def test_a_loop_can_end_while_a_thread_goes_on() -> None:
    app = Scheduler("memory://", grace=0.01)
    thread = Thread(app)

    async def main() -> list[str]:
        await thread.task.submit()
        async with app.running():
            await asyncio.to_thread(thread.started.wait, 5)
            return await app.stop(0.01)

    left = asyncio.run(main())
    ended = thread.ended.is_set()
    thread.go_on.set()

    assert len(left) == 1
    assert not ended
    assert thread.ended.wait(5)


async def test_a_thread_that_ends_after_everything_was_closed_disturbs_nobody(
    url: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Scheduler(url, clock=clock, grace=0.01) as app:
        thread = Thread(app)
        await thread.task.submit()
        async with app.running():
            await asyncio.to_thread(thread.started.wait, 5)
            await soon(app.stop(0.01))
    thread.go_on.set()
    await asyncio.to_thread(thread.ended.wait, 5)
    await turns()
    gc.collect()
    await turns()

    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


# Closing


async def test_closing_stops_the_worker_and_the_next_call_opens_again(app: Scheduler, busy: Busy) -> None:
    busy.go_on.set()
    receipt = await busy.task.submit()
    work = asyncio.create_task(app.work())
    await soon(app.wait(receipt))

    await soon(app.aclose())
    await soon(work)
    again = await busy.task.submit()
    await soon(app.drain())

    assert await app.result(receipt) == "fence 1"
    assert await app.result(again) == "fence 1"


async def test_closing_twice_and_closing_what_was_never_opened_is_fine(url: str, clock: FakeClock) -> None:
    app = Scheduler(url, clock=clock)

    await app.aclose()
    await app.open()
    await app.aclose()
    await app.aclose()

    assert await app.runs() == []  # and it can be used again
    await app.aclose()


async def test_a_handler_may_stop_its_own_worker(app: Scheduler) -> None:
    stops = []

    @app.task
    async def last() -> str:
        stops.append(asyncio.create_task(app.stop(5)))
        return "and out"

    receipt = await last.submit()
    await soon(app.work())
    await soon(stops[0])

    assert await app.result(receipt) == "and out"


async def test_a_stop_while_a_claim_is_under_way_gives_the_run_back(watched: WatchedStore, clock: FakeClock) -> None:
    app = Scheduler(store=watched, clock=clock)
    started = asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    working = asyncio.create_task(app.work())
    await turns()
    reached = watched.hold_back("step")
    receipt = await work.submit()
    await soon(reached.wait())
    stop = asyncio.create_task(app.stop(0.01))
    await timers(0.05)  # the time is over, and the claim is still under way
    watched.let_go("step")
    await soon(asyncio.gather(stop, working))

    run = await app.get(receipt)
    assert (run.state, run.attempt, run.crashes) == (RunState.PENDING, 1, 0)


async def test_a_stop_waits_for_runs_whose_claim_was_under_way(watched: WatchedStore, clock: FakeClock) -> None:
    app = Scheduler(store=watched, clock=clock)

    @app.task
    async def work() -> str:
        await turns(5)
        return "done"

    working = asyncio.create_task(app.work())
    await turns()
    reached = watched.hold_back("step")
    receipt = await work.submit()
    await soon(reached.wait())
    stop = asyncio.create_task(app.stop(30))
    await turns()
    watched.let_go("step")
    await soon(asyncio.gather(stop, working))

    assert (await app.get(receipt)).state in {RunState.SUCCEEDED, RunState.PENDING}


async def test_work_that_is_cancelled_gives_back_a_handler_that_needs_a_moment_to_clean_up(app: Scheduler) -> None:
    started = asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await turns(10)  # closes a connection, say

    receipt = await work.submit()
    working = asyncio.create_task(app.work())
    await soon(started.wait())
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await turns()

    run = await app.get(receipt)
    assert (run.state, run.attempt, run.crashes) == (RunState.PENDING, 1, 0)


async def test_a_thread_that_ends_after_the_stop_is_settled_and_not_charged_a_crash(url: str, clock: FakeClock) -> None:
    started, go_on = threading.Event(), threading.Event()
    async with Scheduler(url, clock=clock, renew_every=0.005) as app:

        @app.task
        def work() -> str:
            started.set()
            go_on.wait(10)
            return "done"

        receipt = await work.submit()
        working = asyncio.create_task(app.work())
        await asyncio.to_thread(started.wait, 5)
        await soon(app.stop(0))
        await soon(working)
        go_on.set()
        await lingerers()

        run = await app.get(receipt)
        assert run.state in {RunState.SUCCEEDED, RunState.PENDING}
        assert run.crashes == 0


async def test_a_plain_handler_does_not_wait_for_a_thread_that_was_lost(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = Scheduler(store=watched, clock=clock, concurrency=1, renew_every=0.005, grace=0.01)
    started, go_on = threading.Event(), threading.Event()

    @app.task
    def work(wait: bool) -> None:
        if wait:
            started.set()
            go_on.wait(10)

    await work.submit(wait=True)
    working = asyncio.create_task(app.work())
    await asyncio.to_thread(started.wait, 5)
    [info] = await watched.workers()
    thief = await Hand(watched.store, "thief").register()
    await thief.reclaim(info.incarnation.id)  # the worker loses the run; its thread goes on
    next_one = await work.submit(wait=False)
    await until(lambda: watched.calls["register"] == 2)
    run = await soon(app.wait(next_one))
    await soon(app.stop(0.01))
    await soon(working)
    go_on.set()

    assert (run.state, run.crashes) == (RunState.SUCCEEDED, 0)


async def test_one_step_without_an_answer_at_the_end_does_not_lose_results(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = Scheduler(store=watched, clock=clock)
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> str:
        started.set()
        await go_on.wait()
        return "done"

    receipt = await work.submit()
    working = asyncio.create_task(app.work())
    await soon(started.wait())
    stopping = asyncio.create_task(app.stop(30))
    await turns()
    watched.fail("step")  # locked for a moment, say
    go_on.set()
    await as_time_passes(clock, asyncio.gather(stopping, working))

    assert await app.result(receipt) == "done"
