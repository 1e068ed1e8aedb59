"""Workers that die at random points, a thousand times: what was kept is not done again, what follows follows once."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from laneway import Context, GiveUp, NotWaiting, Run, Scheduler
from laneway.core.records.run import RunFilter
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.scheduler import store_at
from laneway.settings import Settings
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.engine.conftest import STORES, address
from tests.support.crashing_store import CrashingStore
from tests.support.invariants import all_runs, check_invariants
from tests.support.waits import as_time_passes, between_looks

CRASHES = 1000  # of each task on each store, in `make chaos`
FEWER = {True: 400, False: 200}  # in memory, and where each of them takes some writes: a thousand together
LONG_FORM = bool(os.environ.get("LANEWAY_CHAOS"))
LONG = 10_000_000.0  # seconds: nobody lapses by himself, whatever the clock is moved


@pytest_asyncio.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    store = store_at(address(request.param, tmp_path), clock, Settings())
    await store.open()
    yield store
    await store.close()


class Chain:
    """A handler of steps, a question, a call and follow-ups, and a count of what it did although that was kept."""

    def __init__(self, store: CrashingStore) -> None:
        self.store = store
        self.effects: Counter[str] = Counter()
        self.repeated: list[str] = []

    def register(self, app: Scheduler) -> Scheduler:
        never = 1_000_000  # so often it may crash without getting on
        app.task(name="work", max_crashes=never)(self._work)
        app.task(name="plain", max_crashes=never)(self._plain)
        app.task(name="child", max_crashes=never)(self._child)
        app.task(name="follow", max_crashes=never)(self._follow)
        return app

    async def _effect(self, ctx: Context, name: str) -> str:
        self._done(ctx, name)
        await asyncio.sleep(0)
        return name

    def _done(self, ctx: Context, name: str) -> str:
        self.effects[name] += 1
        if (ctx.run_id, name) in self.store.kept:
            self.repeated.append(f"{ctx.run_id} {name}")
        return name

    async def _work(self, *, ctx: Context) -> str:
        told = await ctx.step("a", self._effect, ctx, "a")
        told += "".join(await asyncio.gather(*[ctx.step(name, self._effect, ctx, name) for name in "bc"]))
        told += await ctx.ask("d?", name="ask")
        told += await ctx.step("e", self._effect, ctx, "e")
        told += await ctx.call("child", {"value": "f"}, name="call")
        ctx.submit("follow", {"text": told})
        return told + await ctx.step("g", self._effect, ctx, "g")  # type: ignore[no-any-return]  # any JSON

    def _plain(self, *, ctx: Context) -> str:
        told = ctx.step("a", self._done, ctx, "a") + ctx.ask("b?") + ctx.call("child", {"value": "c"})
        ctx.submit("follow", {"text": told})
        return told + ctx.step("d", self._done, ctx, "d")  # type: ignore[no-any-return]  # any JSON

    async def _child(self, value: str, *, ctx: Context) -> str:
        return await ctx.step("child", self._effect, ctx, value)  # type: ignore[no-any-return]  # any JSON

    async def _follow(self, text: str) -> str:
        return text


async def answer_all(app: Scheduler, store: Store) -> None:
    """Answer whatever is asked, as long as this is not cancelled."""
    while True:
        for run in await store.runs(RunFilter.of(state=RunState.WAITING), limit=100):
            if run.wait is not None and run.wait.questions:
                with suppress(NotWaiting):
                    await app.answer(run.id, "d" if run.task == "work" else "b")
        await between_looks()


async def let_time_pass(clock: FakeClock) -> None:
    while True:
        await clock.advance(0.5)
        await between_looks()


async def cancelled(*helpers: asyncio.Task[None]) -> None:
    for helper in helpers:
        helper.cancel()
        with suppress(asyncio.CancelledError):
            await helper


@pytest.mark.system
@pytest.mark.timeout(120)
@pytest.mark.parametrize("task", ["work", "plain"])
async def test_a_kept_step_is_never_taken_again_over_a_thousand_crashes(
    store: Store, clock: FakeClock, task: str
) -> None:
    crashing = CrashingStore(store, Random(7), chance=0.5, lossy=0.1)
    chain = Chain(crashing)
    app = chain.register(Scheduler(store=crashing, clock=clock, lease=LONG, concurrency=4))
    outside = chain.register(Scheduler(store=store, clock=clock))
    submitted = 0
    async with app.running():
        helpers = [asyncio.create_task(answer_all(outside, store)), asyncio.create_task(let_time_pass(clock))]
        while crashing.crashes < (CRASHES if LONG_FORM else FEWER[isinstance(store, MemoryStore)]):
            receipts = await outside.submit_many([(task, {})] * 10)
            submitted += len(receipts)
            for receipt in receipts:
                await asyncio.wait_for(outside.wait(receipt), 60)
        crashing.deadly = crashing.chance = 0
        for follow in await outside.runs(task="follow", limit=1000):
            await asyncio.wait_for(outside.wait(follow), 60)
    # Not before: a worker whose last call got no answer asks again by this clock, and would never stop.
    await cancelled(*helpers)

    runs = await all_runs(store)
    told, last = {"work": ("abcdef", "g"), "plain": ("abc", "d")}[task]
    assert chain.repeated == []
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    assert Counter(run.task for run in runs) == {task: submitted, "child": submitted, "follow": submitted}
    assert {run.result for run in runs if run.task == task} == {told + last}
    assert {run.result for run in runs if run.task == "follow"} == {told}
    await check_invariants(store)


# Between a handler's return and the end of settle


class Ending:
    """A handler that leaves two runs behind, and one more by `then` or `on_failure`."""

    def __init__(self, store: CrashingStore, clock: FakeClock) -> None:
        self.store, self.clock = store, clock
        self.app = Scheduler(store=store, clock=clock, lease=LONG)

        @self.app.task
        async def work(fails: bool, *, ctx: Context) -> int:
            ctx.submit("note", {"text": "one"})
            ctx.submit("note", {"text": "two"})
            if fails:
                raise GiveUp("no luck")
            return ctx.fence

        @self.app.task
        async def note(text: str) -> None:
            pass

    async def run(self, *, fails: bool) -> Run:
        """Execute it, and whatever follows; return the run."""
        after: dict[str, Any] = {"then": ("note", {"text": "then"}), "on_failure": ("note", {"text": "on_failure"})}
        receipt = await self.app.submit("work", {"fails": fails}, **after)
        await as_time_passes(self.clock, self.app.drain())
        return await self.app.get(receipt)


def texts(runs: list[Run]) -> list[str]:
    return sorted(run.args["text"] for run in runs if run.task == "note")


FAILS = pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])


@FAILS
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_worker_that_dies_with_its_result_leaves_all_that_follows_once_or_nothing(
    store: Store, clock: FakeClock, when: str, fails: bool
) -> None:
    ending = Ending(CrashingStore(store, Random(0)), clock)
    ending.store.die(when)
    run = await ending.run(fails=fails)

    follow = ["on_failure"] if fails else ["one", "then", "two"]
    settled = when == "after"
    assert ending.store.crashes == 1
    assert texts(ending.store.found) == (follow if settled else [])
    assert texts(await all_runs(store)) == follow
    assert (run.fence, run.crashes) == (1 if settled else 2, 0)
    assert run.state is (RunState.FAILED if fails else RunState.SUCCEEDED)
    await check_invariants(store)


@FAILS
@pytest.mark.parametrize("fault", ["fail", "lose_reply"])
async def test_a_result_that_is_sent_again_and_again_leaves_what_follows_once(
    store: Store, clock: FakeClock, fault: str, fails: bool
) -> None:
    ending = Ending(CrashingStore(store, Random(0)), clock)
    getattr(ending.store, fault)("step", times=4)
    await ending.run(fails=fails)

    assert ending.store.faults == 4
    assert texts(await all_runs(store)) == (["on_failure"] if fails else ["one", "then", "two"])
    await check_invariants(store)
