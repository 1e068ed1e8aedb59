"""Limits: a worker's concurrency, a lane's and a user's limit across workers, a session's order."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from laneway import Context, Lane, Scheduler, Submission
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.invariants import check_invariants
from tests.support.waits import soon, turns, until
from tests.support.watched_store import WatchedStore


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
    async with crowded(Scheduler(store=watched, clock=clock, concurrency=2), crowd) as app:
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
    apps = [crowded(Scheduler(store=memory, clock=clock), crowd) for _ in range(2)]
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
    apps = [crowded(Scheduler(store=memory, clock=clock), crowd) for _ in range(2)]
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


@pytest.mark.checklist("W0-16")
async def test_a_noisy_task_leaves_slots_to_others_and_can_be_listed_and_cancelled(url: str, clock: FakeClock) -> None:
    may_end, inside, quiet_ran = asyncio.Event(), Counter[str | None](), asyncio.Event()
    lanes = [Lane("noise", limit=2, per_user=1)]
    async with Scheduler(url, clock=clock, lanes=lanes, concurrency=4) as app:

        @app.task(lane="noise")
        async def noisy(*, ctx: Context) -> None:
            inside[ctx.user] += 1
            await may_end.wait()

        @app.task
        async def quiet() -> None:
            quiet_ran.set()

        await app.submit_many([Submission(noisy, user="loud") for _ in range(50)])
        await app.submit(noisy, user="shy")
        async with app.running():
            await until(lambda: inside.total() == 2)
            await app.submit(quiet)
            await soon(quiet_ran.wait())

            assert inside == {"loud": 1, "shy": 1}
            assert len(await app.runs(task="noisy", state="pending")) == 49
            assert await app.cancel_where(task="noisy", state="pending") == 49
            may_end.set()

    assert inside.total() == 2
