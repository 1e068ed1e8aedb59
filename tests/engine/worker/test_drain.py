"""Drain: execute everything that is due, then return."""

from __future__ import annotations

import asyncio
import threading

import pytest

from laneway import Context, Lane, Retry, Scheduler, SessionPolicy
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing import FakeClock, Hand
from tests.support.invariants import check_invariants
from tests.support.waits import as_time_passes, soon
from tests.support.watched_store import WatchedStore


async def test_drain_of_an_empty_store_returns(app: Scheduler) -> None:
    await soon(app.drain())

    assert await app.runs() == []


async def test_drain_executes_everything_that_is_due_and_returns(app: Scheduler) -> None:
    @app.task
    async def work(n: int) -> int:
        await asyncio.sleep(0)
        return n

    receipts = await app.submit_many([(work, {"n": n}) for n in range(200)])
    await soon(app.drain(concurrency=7))

    assert [(await app.get(receipt)).result for receipt in receipts] == list(range(200))


async def test_drain_does_not_wait_for_runs_of_the_future(app: Scheduler, clock: FakeClock) -> None:
    @app.task
    async def work() -> None: ...

    now, later = await work.submit(), await work.using(delay=10).submit()
    await soon(app.drain())
    states = [(await app.get(receipt)).state for receipt in (now, later)]
    await clock.advance(10)
    await soon(app.drain())

    assert states == [RunState.SUCCEEDED, RunState.PENDING]
    assert (await app.get(later)).state is RunState.SUCCEEDED


async def test_drain_does_not_wait_for_a_retry(app: Scheduler) -> None:
    @app.task(retry=Retry.delays(60))
    async def work() -> None:
        raise ValueError("no")

    receipt = await work.submit()
    await soon(app.drain())

    run = await app.get(receipt)
    assert (run.state, run.attempt) == (RunState.PENDING, 2)


async def test_drain_executes_a_retry_without_delay_too(app: Scheduler) -> None:
    @app.task(retry=Retry.delays(0, 0))
    async def work(*, ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError("no")
        return ctx.attempt

    receipt = await work.submit()
    await soon(app.drain())

    assert await app.result(receipt) == 3


async def test_drain_executes_what_its_handlers_submit(app: Scheduler) -> None:
    @app.task
    async def count_down(n: int) -> None:
        if n:
            await app.submit("count_down", {"n": n - 1})

    await count_down.submit(n=5)
    await soon(app.drain())

    assert [run.state for run in await app.runs()] == [RunState.SUCCEEDED] * 6


async def test_drain_goes_through_sessions_and_limits(app: Scheduler) -> None:
    order: list[int] = []

    @app.task(lane="narrow")
    async def work(n: int) -> None:
        order.append(n)

    await (await app.open()).declare_lanes([Lane("narrow", limit=1, per_user=1)])
    for n in range(20):
        await work.using(user=f"u{n % 3}", session="chat", session_policy=SessionPolicy(cap=20)).submit(n=n)
    await soon(app.drain())

    assert order == list(range(20))
    await check_invariants(await app.open())


async def test_drain_takes_over_the_runs_of_the_dead_first(memory: Store, clock: FakeClock) -> None:
    app = Scheduler(store=memory, clock=clock)

    @app.task
    async def work(n: int) -> int:
        return n

    receipts = [await work.submit(n=n) for n in range(3)]
    dead = await Hand(memory, "dead", tasks={"work"}).register()
    await dead.claim(3)
    living = await Hand(memory, "living").register()
    for _ in range(4):
        await clock.advance(5)
        living.renew()

    await soon(app.drain())

    assert [await app.result(receipt) for receipt in receipts] == [0, 1, 2]
    await check_invariants(memory)


async def test_drain_leaves_what_a_living_worker_executes(memory: Store, clock: FakeClock) -> None:
    app = Scheduler(store=memory, clock=clock)

    @app.task
    async def work() -> None: ...

    receipt = await work.submit()
    living = await Hand(memory, "living", tasks={"work"}).register()
    [claimed] = await living.claim()

    await soon(app.drain())

    assert (await app.get(receipt)).worker == "living"
    assert (await living.succeed(claimed)).refused == []


async def test_drain_says_good_bye(lossy: Scheduler, watched: WatchedStore) -> None:
    await lossy.drain()

    assert await watched.workers() == []
    assert watched.calls["leave"] == 1


async def test_drain_can_be_repeated_and_followed_by_working(app: Scheduler) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    for n in range(3):
        receipt = await work.submit(n=n)
        await soon(app.drain())
        assert (await app.get(receipt)).result == n
    async with app.running():
        value = await soon(app.result(await work.submit(n=4)))

    assert value == 4


async def test_drain_that_is_stopped_returns(app: Scheduler) -> None:
    started = asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    receipt = await work.submit()
    drain = asyncio.create_task(app.drain())
    await soon(started.wait())
    await app.stop(0)
    await soon(drain)

    run = await app.get(receipt)
    assert (run.state, run.attempt) == (RunState.PENDING, 1)


@pytest.mark.parametrize("count", [1, 60])
async def test_drain_of_plain_handlers(app: Scheduler, count: int) -> None:
    @app.task
    def work(n: int) -> int:
        return n * n

    receipts = await app.submit_many([(work, {"n": n}) for n in range(count)])
    await soon(app.drain())

    assert [(await app.get(receipt)).result for receipt in receipts] == [n * n for n in range(count)]


async def test_drain_tells_how_the_attempts_were_settled(app: Scheduler) -> None:
    @app.task(retry=Retry.delays(0))
    async def work(n: int, *, ctx: Context) -> None:
        if n == 1 and ctx.attempt == 1:
            raise ValueError("once")
        if n == 2:
            raise ValueError("always")

    await app.submit_many([(work, {"n": n}) for n in range(5)])
    settled = await soon(app.drain())
    nothing = await soon(app.drain())

    assert settled == {"succeed": 4, "retry": 2, "fail": 1}
    assert nothing == {}


async def test_drain_takes_over_all_runs_of_the_dead_however_many(memory: Store, clock: FakeClock) -> None:
    app = Scheduler(store=memory, clock=clock)
    app.task(name="work")(lambda: None)
    await memory.declare_lanes([Lane("main", limit=5000)])
    await app.submit_many([("work", {}) for _ in range(1200)])
    dead = await Hand(memory, "dead", tasks={"work"}).register()
    await dead.claim(1200)
    living = await Hand(memory, "living").register()
    for _ in range(4):
        await clock.advance(5)
        living.renew()

    await soon(app.drain())

    states = (await memory.depths()).runs
    assert states == {"succeeded": 1200}


@pytest.mark.parametrize("verb", ["workers", "reclaim"])
async def test_drain_takes_over_from_the_dead_also_when_the_store_fails_once(
    watched: WatchedStore, clock: FakeClock, verb: str
) -> None:
    app = Scheduler(store=watched, clock=clock)
    app.task(name="work")(lambda: "by another")
    receipt = await app.submit("work")
    dead = await Hand(watched.store, "dead", tasks={"work"}).register()
    await dead.claim()
    living = await Hand(watched.store, "living").register()
    for _ in range(4):
        await clock.advance(5)
        living.renew()
    watched.fail(verb)

    await as_time_passes(clock, app.drain())

    assert (await app.get(receipt)).result == "by another"


async def test_a_drain_does_not_wait_for_what_is_stuck() -> None:
    app, go_on = Scheduler("memory://", grace=0.05), threading.Event()

    @app.task(timeout=0.05)
    def deaf() -> None:
        go_on.wait(20)

    await app.submit(deaf)
    try:
        assert await soon(app.drain()) == {}
        assert [run.state for run in await app.runs()] == [RunState.RUNNING]
    finally:
        go_on.set()
