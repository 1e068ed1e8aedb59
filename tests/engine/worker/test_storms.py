"""Storms: workers that are stopped, cancelled and robbed at random, and yet every run ends exactly once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from random import Random

import pytest

from laneway import Context, Lane, Scheduler, SessionPolicy
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock, Hand
from tests.support.invariants import all_runs, check_invariants
from tests.support.run_logs import kinds_of
from tests.support.waits import eventually, soon, turns

RUNS = 80


class Load:
    """Handlers of every kind, each with some way to go, and how often each lease was executed."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.executed: Counter[tuple[str, int]] = Counter()

    def register(self, app: Scheduler) -> Scheduler:
        app.task(name="stroll")(self._stroll)
        app.task(name="tidy")(self._tidy)
        app.task(name="plod")(self._plod)
        return app

    async def _stroll(self, *, ctx: Context) -> str:
        self.executed[ctx.run_id, ctx.fence] += 1
        for _ in range(self.random.randrange(8)):
            ctx.emit("mark", ctx.fence)
            await turns(self.random.randrange(5))
        return ctx.run_id

    async def _tidy(self, *, ctx: Context) -> str:
        try:
            return await self._stroll(ctx=ctx)
        finally:
            await turns(self.random.randrange(5))  # cleans up, also when it is stopped

    def _plod(self, *, ctx: Context) -> str:
        self.executed[ctx.run_id, ctx.fence] += 1
        threading.Event().wait(self.random.random() * 0.003)
        return ctx.run_id

    async def submit(self, app: Scheduler) -> None:
        for n in range(RUNS):
            task = app.tasks.get(self.random.choice(["stroll", "tidy", "plod"]))
            session = self.random.choice(["one", "two", None])
            policy = SessionPolicy(cap=1000) if session else None
            await task.using(
                user=self.random.choice(["ann", "ben", None]), session=session, session_policy=policy
            ).submit()
            if n % 10 == 0:
                await turns(3)


async def assert_all_ended_once(app: Scheduler, store: Store, load: Load) -> None:
    runs = await all_runs(store)
    assert len(runs) == RUNS
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    assert set(load.executed.values()) == {1}, "a lease was executed twice"
    for run in runs:
        kinds = Counter(await kinds_of(app, run.id))
        assert run.result == run.id
        assert (kinds["done"], kinds["result"], run.attempt) == (1, 1, 1)
    await check_invariants(store)


@pytest.mark.parametrize("seed", range(5))
async def test_workers_that_are_stopped_at_random_charge_nobody(seed: int, clock: FakeClock) -> None:
    random = Random(seed)
    store, load = MemoryStore(clock), Load(random)
    apps = [load.register(Scheduler(store=store, clock=clock, concurrency=5)) for _ in range(2)]
    await store.declare_lanes([Lane("main", limit=6, per_user=3)])

    async def come_and_go(app: Scheduler) -> None:
        for _ in range(12):
            working = asyncio.create_task(app.work())
            await turns(1 + random.randrange(30))
            if random.random() < 0.5:
                await app.stop(random.choice([0, 0.002]))
            else:
                working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    await soon(asyncio.gather(load.submit(apps[0]), *map(come_and_go, apps)))
    await soon(until_settled(store))
    await soon(apps[0].drain())

    await assert_all_ended_once(apps[0], store, load)
    for run in await all_runs(store):
        assert "lapsed" not in await kinds_of(apps[0], run.id)


async def until_settled(store: Store) -> None:
    """Wait for the last threads of workers that were stopped."""
    await eventually(store.depths, lambda depths: not depths.runs.get("running"))


@pytest.mark.parametrize("seed", range(5))
async def test_workers_that_are_robbed_at_random_write_nothing_twice(seed: int, clock: FakeClock) -> None:
    random = Random(seed)
    store, load = MemoryStore(clock), Load(random)
    apps = [load.register(Scheduler(store=store, clock=clock, concurrency=5, renew_every=0.002)) for _ in range(2)]
    await store.declare_lanes([Lane("main", limit=6, per_user=3)])
    thief = await Hand(store, "thief").register()

    async def rob() -> None:
        for _ in range(25):
            await turns(random.randrange(20))
            victims = [info.incarnation.id for info in await store.workers() if info.incarnation.id != "thief"]
            for victim in victims[: random.randrange(3)]:
                reply = await thief.reclaim(victim)
                await thief.release(*reply.lapsed)

    async with apps[0].running(), apps[1].running():
        await soon(asyncio.gather(load.submit(apps[0]), rob()))
        runs = await all_runs(store)
        await soon(asyncio.gather(*(apps[1].wait(run.id) for run in runs)))

    await assert_all_ended_once(apps[0], store, load)
