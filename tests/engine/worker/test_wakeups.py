"""Idle workers are woken; they don't poll."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest

from laneway import Lane, Scheduler
from laneway.testing import FakeClock
from tests.support.waits import as_time_passes, soon, turns
from tests.support.watched_store import WatchedStore


@pytest.fixture
def lossy(lossy: Scheduler) -> Scheduler:
    @lossy.task
    async def work(n: int = 0) -> int:
        return n

    return lossy


async def test_an_idle_worker_asks_for_no_work_and_only_looks_around(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    async with lossy.running():
        await turns()
        watched.calls.clear()
        await clock.advance(60)
        calls = dict(watched.calls)

    renewals = calls.pop("renew", 0)  # in real time, every five seconds
    assert renewals <= 1
    assert calls.pop("prune", 0) <= 4  # runs and deltas, about once a minute each
    assert calls.pop("jobs", 0) <= 1  # once: there is no laneway.toml, and are there jobs of one?
    # A look is no call to the store; the list of workers is read each fifth time, to see who is gone.
    assert calls == {"look": 60, "workers": 12}


async def test_a_submission_wakes_an_idle_worker_without_any_time_passing(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    async with lossy.running():
        await turns()
        value = await soon(lossy.result(await lossy.submit("work", {"n": 5})))

    assert value == 5
    assert clock.monotonic() == 0


async def test_an_idle_worker_on_any_store_starts_a_run_without_any_time_passing(
    app: Scheduler, clock: FakeClock
) -> None:
    @app.task
    async def work() -> str:
        return "woken"

    async with app.running():
        values = [await soon(app.result(await work.submit())) for _ in range(5)]

    assert values == ["woken"] * 5
    assert clock.monotonic() == 0


async def test_a_submission_from_another_thread_wakes_it_too(lossy: Scheduler, clock: FakeClock) -> None:
    async with lossy.running():
        await turns()
        receipt = await asyncio.to_thread(lambda: asyncio.run(lossy.submit("work", {"n": 7})))
        value = await soon(lossy.result(receipt))

    assert value == 7


async def test_a_delayed_run_starts_when_it_is_due_and_not_before(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    async with lossy.running():
        receipt = await lossy.submit("work", delay=3600)
        await turns()
        watched.calls.clear()
        await clock.advance(3599.999)
        asked = watched.calls["step"]
        before = await lossy.get(receipt)
        await clock.advance(0.001)
        run = await soon(lossy.wait(receipt))

    assert asked == 0
    assert before.fence == 0
    assert run.started_at == run.due_at


async def test_a_nearer_due_time_moves_the_alarm_forward(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    async with lossy.running():
        far = await lossy.submit("work", delay=100)
        await turns()
        near = await lossy.submit("work", delay=10)
        await turns()
        await clock.advance(10)
        done = await soon(lossy.wait(near))
        await clock.advance(90)
        last = await soon(lossy.wait(far))

    assert done.started_at == done.due_at
    assert last.started_at == last.due_at


async def test_a_burst_is_taken_in_few_steps(lossy: Scheduler, watched: WatchedStore) -> None:
    async with lossy.running():
        await turns()
        watched.calls.clear()
        receipts = await asyncio.gather(*(lossy.submit("work", {"n": n}) for n in range(30)))
        await soon(asyncio.gather(*map(lossy.wait, receipts)))
        steps = watched.calls["step"]

    assert steps <= 3


async def test_one_run_costs_two_steps(lossy: Scheduler, watched: WatchedStore) -> None:
    async with lossy.running():
        await turns()
        watched.calls.clear()
        await soon(lossy.wait(await lossy.submit("work")))
        await turns()
        steps = watched.calls["step"]

    assert steps == 2


async def test_one_submission_wakes_one_of_many_idle_workers(watched: WatchedStore, clock: FakeClock) -> None:
    apps = [Scheduler(store=watched, clock=clock) for _ in range(5)]
    for app in apps:
        app.task(name="work")(lambda: None)

    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.running())
        await turns()
        watched.steps.clear()
        await soon(apps[0].wait(await apps[0].submit("work")))
        await turns()
        asked = {step.incarnation for step in watched.steps}

    assert len(asked) == 1


async def test_a_slot_that_becomes_free_wakes_a_worker_that_waits_for_it(
    watched: WatchedStore, clock: FakeClock
) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    started: list[int] = []
    apps = [Scheduler(store=watched, clock=clock) for _ in range(2)]

    async def work(n: int) -> None:
        started.append(n)
        await gates[n].wait()

    for app in apps:
        app.task(name="work")(work)
    await watched.declare_lanes([Lane("main", limit=1)])

    async with apps[0].running(concurrency=1), apps[1].running(concurrency=1):
        receipts = [await apps[0].submit("work", {"n": n}) for n in (0, 1)]
        await turns()
        first = list(started)
        gates[0].set()
        await turns()
        second = list(started)
        gates[1].set()
        await soon(asyncio.gather(*map(apps[0].wait, receipts)))

    assert (first, second) == ([0], [0, 1])
    assert clock.monotonic() == 0


async def test_a_raised_limit_wakes_workers(watched: WatchedStore, clock: FakeClock) -> None:
    app = Scheduler(store=watched, clock=clock)
    go_on = asyncio.Event()
    started: list[int] = []

    @app.task
    async def work(n: int) -> None:
        started.append(n)
        await go_on.wait()

    await watched.declare_lanes([Lane("main", limit=1)])
    async with app.running():
        receipts = [await work.submit(n=n) for n in range(3)]
        await turns()
        before = len(started)
        await watched.declare_lanes([Lane("main", limit=3)])
        await turns()
        after = len(started)
        go_on.set()
        await soon(asyncio.gather(*map(app.wait, receipts)))

    assert (before, after) == (1, 3)


async def test_results_of_threads_wake_the_worker(app: Scheduler, clock: FakeClock) -> None:
    go_on = threading.Event()

    @app.task
    def work() -> str:
        go_on.wait(5)
        return "done"

    async with app.running():
        receipt = await work.submit()
        await turns()
        go_on.set()
        assert await soon(app.result(receipt)) == "done"
    assert clock.monotonic() == 0


async def test_a_lost_wake_up_costs_a_second_where_the_store_can_tell(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    looks = iter([False, True])

    async with lossy.running():
        await turns()
        watched.hints_get_lost = True
        receipt = await lossy.submit("work", {"n": 1})
        await turns()
        watched.look = lambda: next(looks, False)  # type: ignore[method-assign]  # what SQLite would say
        early = (await lossy.get(receipt)).fence
        value = await as_time_passes(clock, lossy.result(receipt))

    assert early == 0
    assert value == 1
    assert clock.monotonic() <= 4
