"""A store out of reach: the same step is repeated until it is answered, handlers go on, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import product
from pathlib import Path
from random import Random

import pytest

from laneway import Context, Lane, Retry, Scheduler, SessionPolicy, StoreUnavailable
from laneway.core.records.states import RunState
from laneway.stores.memory.store import MemoryStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock
from tests.support.invariants import all_runs, check_invariants
from tests.support.run_logs import kinds_of, log_of
from tests.support.waits import as_time_passes, soon, turns, until
from tests.support.watched_store import WatchedStore


@pytest.mark.parametrize("fault", ["not sent", "no reply"])
async def test_a_step_without_an_answer_is_sent_again_the_same(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock, fault: str
) -> None:
    calls = []

    @lossy.task
    async def work() -> str:
        calls.append(1)
        return "done"

    async with lossy.running():
        await turns()
        watched.fail("step", times=4) if fault == "not sent" else watched.lose_reply("step", times=4)
        first = len(watched.steps)
        receipt = await lossy.submit("work")
        value = await as_time_passes(clock, lossy.result(receipt))

    repeated = watched.steps[first : first + 5]
    assert value == "done"
    assert len(calls) == 1
    assert all(step == repeated[0] for step in repeated)
    assert watched.steps[first + 5].call == repeated[0].call + 1
    assert [event.kind for event in await log_of(lossy, receipt)] == ["started", "result", "done"]


async def test_handlers_go_on_and_results_wait_while_the_store_is_out_of_reach(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    ended = []

    @lossy.task
    async def work(n: int, *, ctx: Context) -> int:
        await clock.sleep(1)
        ctx.log("still here")
        await clock.sleep(n)
        ended.append(n)
        return n

    receipts = [await lossy.submit("work", {"n": n}) for n in range(1, 6)]
    async with lossy.running():
        await turns()
        watched.fail("step", times=8)
        await clock.advance(10)
        meanwhile = list(ended)
        values = await as_time_passes(clock, asyncio.gather(*map(lossy.result, receipts)))

    assert meanwhile == values == [1, 2, 3, 4, 5]
    for receipt in receipts:
        assert [event.kind for event in await log_of(lossy, receipt)] == ["started", "log", "result", "done"]


async def test_a_worker_cut_off_claims_nothing_new(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    @lossy.task
    async def work() -> None: ...

    async with lossy.running():
        await turns()
        watched.fail("step", times=6)
        receipt = await lossy.submit("work")
        await clock.advance(5)
        numbers = {step.call for step in watched.steps[1:]}
        run = await lossy.get(receipt)
        await as_time_passes(clock, lossy.wait(receipt))

    assert len(numbers) == 1
    assert run.state is RunState.PENDING


async def test_repeats_of_a_step_come_at_most_five_seconds_apart(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    @lossy.task
    async def work() -> None: ...

    async with lossy.running():
        await turns()
        watched.fail("step", times=20)
        receipt = await lossy.submit("work")
        await turns()
        first = len(watched.steps)
        await clock.advance(60)
        tried = len(watched.steps) - first
        await as_time_passes(clock, lossy.wait(receipt))

    assert 12 <= tried <= 16


@pytest.mark.parametrize(("kind", "seed"), [*product(["memory"], range(4)), *product(["sqlite"], range(2))])
async def test_on_a_bad_line_every_run_ends_exactly_once(
    kind: str, seed: int, clock: FakeClock, tmp_path: Path
) -> None:
    random = Random(seed)
    inner = MemoryStore(clock) if kind == "memory" else SQLiteStore(str(tmp_path / "laneway.db"), clock)
    await inner.open()
    store = WatchedStore(inner, random=random)
    ran: Counter[tuple[int, int]] = Counter()
    apps = [Scheduler(store=store, clock=clock, concurrency=5, lease=86_400) for _ in range(2)]

    async def work(n: int, *, ctx: Context) -> int:
        ran[n, ctx.fence] += 1
        for part in range(n % 4):
            ctx.emit("part", part)
            await clock.sleep(random.choice([0, 0.01, 0.1]))
        if n % 7 == 0 and ctx.attempt == 1:
            raise ValueError("the first time")
        return n

    for app in apps:
        app.task(name="work", retry=Retry(attempts=3, base=0.5))(work)
    await store.declare_lanes([Lane("main", limit=7, per_user=3)])

    async with apps[0].running(), apps[1].running():
        store.chance, store.unreliable = 0.15, {"step", "workers", "reclaim", "leave"}
        work_task, chat = apps[0].tasks.get("work"), {"session": "s", "session_policy": SessionPolicy(cap=1000)}
        submits = [
            work_task.using(user=random.choice(["ann", "ben", None]), **random.choice([chat, {}])).submit(n=n)
            for n in range(100)
        ]
        receipts = await as_time_passes(clock, asyncio.gather(*submits), step=0.5)
        await as_time_passes(clock, asyncio.gather(*map(apps[1].wait, receipts)), step=0.5)
        store.chance = 0.0
        # An answer may be lost on its way at this moment; its step is repeated only as time passes.
        await as_time_passes(clock, asyncio.gather(*(app.stop() for app in apps)))

    runs = await all_runs(store)
    assert store.faults > 5
    assert len(runs) == 100
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    assert set(ran.values()) == {1}, "a claim was executed twice"
    for run in runs:
        assert run.result == run.args["n"]
        assert run.fence == run.attempt == (2 if run.args["n"] % 7 == 0 else 1)
        kinds = Counter(await kinds_of(apps[0], run.id))
        assert (kinds["done"], kinds["result"], kinds["started"]) == (1, 1, run.fence)
        assert kinds["part"] == run.args["n"] % 4 * run.fence
    await check_invariants(store)
    await inner.close()


async def test_a_start_that_fails_is_told_to_whoever_starts(lossy: Scheduler, watched: WatchedStore) -> None:
    watched.fail("register")

    with pytest.raises(StoreUnavailable):
        async with lossy.running():
            pytest.fail("it must not start")
    async with lossy.running():
        pass


@pytest.mark.parametrize("verb", ["workers", "reclaim"])
async def test_a_store_that_fails_right_after_the_start_does_not_end_the_worker(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock, verb: str
) -> None:
    @lossy.task
    async def work() -> str:
        return "done"

    watched.fail(verb)
    async with lossy.running():
        value = await as_time_passes(clock, lossy.result(await lossy.submit("work")))

    assert value == "done"


@pytest.mark.parametrize("fault", ["not sent", "no reply"])
async def test_a_good_bye_that_fails_does_not_fail_the_stop(
    lossy: Scheduler, watched: WatchedStore, fault: str
) -> None:
    async with lossy.running():
        watched.fail("leave") if fault == "not sent" else watched.lose_reply("leave")

    assert watched.calls["leave"] == 1


async def test_a_renewal_that_fails_is_tried_again(watched: WatchedStore, clock: FakeClock) -> None:
    app = Scheduler(store=watched, clock=clock, renew_every=0.01)

    @app.task
    async def work() -> str:
        return "done"

    watched.fail("renew", times=1)
    async with app.running():
        await until(lambda: watched.faults == 1)
        value = await soon(app.result(await app.submit("work")))
        [worker] = await watched.workers()

    assert value == "done"
    assert worker.incarnation.process.pid > 0
