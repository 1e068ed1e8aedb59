"""Poison runs and trying again by hand: a worker holds at most one run on its last chance, and dies for it alone."""

from __future__ import annotations

import asyncio

import pytest

from laneway import BadSetting, Context, RunFailed, Scheduler
from laneway.core.records.run import Gate, Reason
from laneway.core.records.states import RunState
from laneway.errors import WrongState
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of
from tests.support.waits import as_time_passes, eventually, in_state, passes, soon, until
from tests.support.watched_store import WatchedStore


class Fleet:
    """Workers of one store that can be made to vanish with all they hold."""

    def __init__(self, memory: Store, clock: FakeClock) -> None:
        self.memory, self.clock = memory, clock
        self.begun: list[str] = []
        self.client = self.scheduler(memory)

    def scheduler(self, store: Store, *, hang: bool = True) -> Scheduler:
        app = Scheduler(store=store, clock=self.clock)

        async def work(*, ctx: Context) -> str:
            self.begun.append(ctx.run_id)
            if hang:
                await asyncio.Event().wait()
            return "alive"

        app.task(name="work")(work)
        return app

    async def crash(self, begins: int) -> None:
        """Let a worker begin so many handlers and vanish; another one sees that and settles what it held."""
        store = WatchedStore(self.memory)
        doomed, before = self.scheduler(store), len(self.begun)
        working = asyncio.create_task(doomed.work())
        await until(lambda: len(self.begun) >= before + begins)
        held = store.hold_back("step")
        store.wake()
        await soon(held.wait())
        await self.memory.leave(store.incarnations[0])  # as if its process were seen to be gone
        await soon(self._settled())
        working.cancel()
        store.let_go("step")
        await soon(asyncio.gather(working, return_exceptions=True))

    async def _settled(self) -> None:
        # A worker that knows no task claims nothing, and still takes over from the dead, by the default policy.
        async with Scheduler(store=self.memory, clock=self.clock).running():
            await eventually(lambda: self.client.runs(state="running"), lambda runs: not runs)


@pytest.fixture
def fleet(memory: Store, clock: FakeClock) -> Fleet:
    return Fleet(memory, clock)


async def test_a_run_that_takes_its_worker_down_too_often_fails_as_quarantined(fleet: Fleet) -> None:
    receipt = await fleet.client.submit("work")
    for _ in range(3):
        await fleet.crash(1)

    with pytest.raises(RunFailed, match="quarantined"):
        await fleet.client.result(receipt)
    assert await kinds_of(fleet.client, receipt) == [*["started", "lapsed"] * 3, "error", "done"]


async def test_a_worker_holds_one_run_on_its_last_chance_and_its_death_charges_that_one_alone(fleet: Fleet) -> None:
    receipts = [await fleet.client.submit("work") for _ in range(3)]
    await fleet.crash(3)
    await fleet.crash(3)
    assert [(await fleet.client.get(r)).crashes for r in receipts] == [2, 2, 2]
    fresh = await fleet.client.submit("work")

    await fleet.crash(2)  # one of the three, and the fresh one

    runs = [await fleet.client.get(r) for r in receipts]
    assert sorted(run.reason or "" for run in runs) == ["last_chance", "last_chance", "quarantined"]
    assert [run.crashes for run in runs if not run.ended] == [2, 2]
    assert (await fleet.client.get(fresh)).crashes == 0


async def test_what_was_put_off_for_another_on_its_last_chance_is_executed(fleet: Fleet, clock: FakeClock) -> None:
    receipts = [await fleet.client.submit("work") for _ in range(3)]
    await fleet.crash(3)
    await fleet.crash(3)

    healthy = fleet.scheduler(fleet.memory, hang=False)
    async with healthy.running():
        values = await as_time_passes(clock, asyncio.gather(*map(healthy.result, receipts)))

    assert values == ["alive"] * 3


async def test_what_is_put_off_for_another_on_its_last_chance_says_for_which(fleet: Fleet, clock: FakeClock) -> None:
    first, second = [await fleet.client.submit("work") for _ in range(2)]
    await fleet.crash(2)
    await fleet.crash(2)
    healthy, done = Scheduler(store=fleet.memory, clock=clock), asyncio.Event()

    @healthy.task
    async def work() -> None:
        await done.wait()

    async with healthy.running():
        [worker] = await fleet.memory.workers()
        [held] = await healthy.runs(state="running")
        waits = second if held.id == first.run_id else first
        for _ in range(3):  # put off, due, put off again, for longer
            put_off = await in_state(healthy, waits, RunState.PENDING)
            due, other = await healthy.why(waits)
            assert (due.gate, due.opens_at) == (Gate.NOT_DUE, put_off.due_at)
            assert other == Reason(Gate.LAST_CHANCE, "workers", runs=(held.id,))
            seen = put_off.fence
            while (await healthy.get(waits)).fence == seen:
                await passes(clock, 1)
                fleet.memory.renew(worker.incarnation.id)  # its own renewer goes by real time
        done.set()
        await as_time_passes(clock, healthy.result(waits))


# Trying again by hand


async def test_a_run_that_has_ended_can_be_tried_again_as_a_new_run_that_names_it(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(n: int) -> int:
        if not work.mended:  # type: ignore[attr-defined]  # a note of the test's
            raise ValueError("a bug")
        return n

    work.mended = False  # type: ignore[attr-defined]
    old = await work.using(user="ann", session="chat", priority=5).submit(n=7)
    await app.drain()
    work.mended = True  # type: ignore[attr-defined]
    receipt = await app.retry(old)
    await app.drain()

    run, before = await app.get(receipt), await app.get(old)
    assert (run.retry_of, run.result, run.attempt) == (old.run_id, 7, 1)
    assert (run.user, run.session, run.priority, run.args) == ("ann", "chat", 5, {"n": 7})
    assert (before.state, before.retry_of) == (RunState.FAILED, None)


async def test_a_run_that_goes_on_cannot_be_tried_again(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()

    with pytest.raises(WrongState, match="a pending run cannot be tried again"):
        await app.retry(receipt)


async def test_a_shut_scheduler_tries_nothing_again(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()
    await app.drain()
    app.shut()

    with pytest.raises(BadSetting, match="shut"):
        await app.retry(receipt)
