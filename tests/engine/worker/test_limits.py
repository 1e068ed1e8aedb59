"""Limits: a worker's concurrency, a lane's and a user's limit across workers, a session's order."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from laneway import Context, Lane, Scheduler, SessionPolicy
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.engine.support import WatchedStore, scheduler_on, soon, turns
from tests.support.invariants import check_invariants


class Crowd:
    """Handlers that stay until they are let go, and how many were there at once."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.started: list[int] = []
        self.open = asyncio.Event()

    async def enter(self, *names: str, n: int = 0) -> None:
        self.started.append(n)
        for name in names:
            self.inside[name] += 1
            self.most[name] = max(self.most[name], self.inside[name])
        await self.open.wait()
        await turns(3)
        for name in names:
            self.inside[name] -= 1


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def crowded(app: Scheduler, crowd: Crowd) -> Scheduler:
    @app.task
    async def visit(n: int = 0, *, ctx: Context) -> int:
        await crowd.enter("all", f"user:{ctx.user}", n=n)
        return n

    return app


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_a_worker_never_executes_more_than_its_concurrency(
    app: Scheduler, crowd: Crowd, concurrency: int
) -> None:
    crowded(app, crowd)
    receipts = await app.submit_many([("visit", {"n": n}) for n in range(60)])

    async with app.running(concurrency=concurrency):
        crowd.open.set()
        await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert len(crowd.started) == 60
    # Lane main has a limit of its own.
    assert crowd.most["all"] <= min(concurrency, 30)


async def test_a_full_worker_asks_for_nothing_until_a_handler_ends(
    watched: WatchedStore, clock: FakeClock, crowd: Crowd
) -> None:
    async with crowded(scheduler_on(watched, clock, concurrency=2), crowd) as app:
        await app.submit_many([("visit", {"n": n}) for n in range(4)])
        async with app.running():
            await turns()
            full = len(watched.steps)
            await clock.advance(3)

            assert crowd.inside["all"] == 2
            assert len(watched.steps) == full
            crowd.open.set()
            await turns()
            assert sorted(crowd.started) == [0, 1, 2, 3]


async def test_a_lanes_limit_holds_across_two_workers(memory: Store, clock: FakeClock, crowd: Crowd) -> None:
    apps = [crowded(scheduler_on(memory, clock), crowd) for _ in range(2)]
    await memory.declare_lanes([Lane("main", limit=3)])
    receipts = await apps[0].submit_many([("visit", {"n": n}) for n in range(20)])

    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.running())
        await turns()
        held = crowd.inside["all"]
        crowd.open.set()
        await soon(asyncio.gather(*(apps[1].wait(receipt) for receipt in receipts)))

    assert held == 3
    assert crowd.most["all"] == 3
    await check_invariants(memory)


async def test_a_users_limit_holds_across_two_workers_and_holds_up_nobody_else(
    memory: Store, clock: FakeClock, crowd: Crowd
) -> None:
    apps = [crowded(scheduler_on(memory, clock), crowd) for _ in range(2)]
    await memory.declare_lanes([Lane("main", limit=10, per_user=2)])
    visit = apps[0].tasks.get("visit")
    receipts = [await visit.using(user="ann").submit(n=n) for n in range(10)]
    receipts += [await visit.using(user="ben").submit(n=n) for n in range(3)]

    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.running())
        await turns()
        inside = dict(crowd.inside)
        crowd.open.set()
        await soon(asyncio.gather(*(apps[0].wait(receipt) for receipt in receipts)))

    assert inside == {"all": 4, "user:ann": 2, "user:ben": 2}
    assert (crowd.most["user:ann"], crowd.most["user:ben"]) == (2, 2)
    await check_invariants(memory)


async def test_lanes_given_to_the_scheduler_are_set_when_it_opens(url: str, clock: FakeClock, crowd: Crowd) -> None:
    async with crowded(Scheduler(url, clock=clock, lanes=[Lane("main", limit=2)]), crowd) as app:
        receipts = await app.submit_many([("visit", {"n": n}) for n in range(6)])
        async with app.running():
            crowd.open.set()
            await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert crowd.most["all"] == 2


async def test_a_sessions_runs_start_one_after_the_other_in_the_order_they_were_accepted(
    app: Scheduler, crowd: Crowd
) -> None:
    crowded(app, crowd)
    visit = app.tasks.get("visit").using(session="chat", user="ann")
    receipts = [await visit.using(priority=n % 3).submit(n=n) for n in range(10)]
    crowd.open.set()

    async with app.running():
        await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert crowd.started == list(range(10))
    assert crowd.most["all"] == 1
    assert [receipt.position for receipt in receipts] == [None, *range(1, 10)]


async def test_a_sessions_order_holds_across_two_workers(memory: Store, clock: FakeClock, crowd: Crowd) -> None:
    apps = [crowded(scheduler_on(memory, clock), crowd) for _ in range(2)]
    visit = apps[0].tasks.get("visit").using(session="chat", session_policy=SessionPolicy(cap=30))
    crowd.open.set()

    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.running(concurrency=3))
        receipts = [await visit.submit(n=n) for n in range(30)]
        await soon(asyncio.gather(*(apps[1].wait(receipt) for receipt in receipts)))

    assert crowd.started == list(range(30))
    assert crowd.most["all"] == 1


async def test_a_session_of_two_starts_in_order_and_never_more_than_two(app: Scheduler, crowd: Crowd) -> None:
    crowded(app, crowd)
    visit = app.tasks.get("visit").using(session="chat", session_policy=SessionPolicy(max_concurrent=2))
    receipts = [await visit.submit(n=n) for n in range(8)]

    async with app.running():
        crowd.open.set()
        await soon(asyncio.gather(*(app.wait(receipt) for receipt in receipts)))

    assert crowd.started == list(range(8))
    assert crowd.most["all"] == 2
