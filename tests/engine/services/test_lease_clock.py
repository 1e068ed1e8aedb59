"""A worker that stood still for longer than its lease asks before it begins what it was given."""

from __future__ import annotations

import pytest
import pytest_asyncio

from laneway import Context, Scheduler
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing import FakeClock, Hand
from tests.support.idle_store import IdleStore
from tests.support.waits import soon, turns, until
from tests.support.watched_store import WatchedStore

LEASE = 15.0


@pytest_asyncio.fixture
async def watched(app: Scheduler) -> WatchedStore:
    """A store of each kind in turn, its answers held back as they are from a worker that stands still."""
    return WatchedStore(await app.open())


@pytest.fixture
def begun() -> list[int]:
    """The fences under which handlers began."""
    return []


@pytest.fixture
def worker(watched: WatchedStore, clock: FakeClock, begun: list[int]) -> Scheduler:
    return noting(Scheduler(store=watched, clock=clock), begun)


def noting(app: Scheduler, begun: list[int]) -> Scheduler:
    """Let a scheduler have a task that notes its fences."""

    @app.task
    async def work(*, ctx: Context) -> int:
        begun.append(ctx.fence)
        return ctx.fence

    return app


async def take_over(store: Store) -> None:
    """Take over what the only worker has, and give it to whoever asks."""
    [frozen] = await store.workers()
    thief = await Hand(store, "thief", tasks={"work"}).register()
    [lapsed] = (await thief.reclaim(frozen.incarnation.id)).lapsed
    await thief.lapse(lapsed)


async def test_a_worker_that_goes_on_after_its_lease_begins_nothing_that_was_taken_over(
    worker: Scheduler, watched: WatchedStore, clock: FakeClock, begun: list[int]
) -> None:
    receipt = await worker.submit("work")
    claimed = watched.hold_back("step", answer=True)
    async with worker.running():
        await soon(claimed.wait())
        await clock.advance(LEASE + 1)
        await take_over(watched.store)
        watched.let_go("step")
        value = await soon(worker.result(receipt))

    assert begun == [value] == [2]


async def test_a_worker_that_goes_on_after_its_lease_begins_what_it_has_still(
    worker: Scheduler, watched: WatchedStore, clock: FakeClock, begun: list[int]
) -> None:
    receipt = await worker.submit("work")
    claimed = watched.hold_back("step", answer=True)
    async with worker.running():
        await soon(claimed.wait())
        await clock.advance(LEASE + 1)
        watched.let_go("step")
        await soon(worker.result(receipt))
        [info] = await watched.workers()

    assert begun == [1]
    assert info.renewed_at == clock.now()


async def test_a_worker_that_goes_on_after_its_lease_does_not_begin_what_was_cancelled(
    worker: Scheduler, watched: WatchedStore, clock: FakeClock, begun: list[int]
) -> None:
    receipt = await worker.submit("work")
    claimed = watched.hold_back("step", answer=True)
    async with worker.running():
        await soon(claimed.wait())
        await clock.advance(LEASE + 1)
        cancelled = await worker.cancel(receipt)
        watched.let_go("step")
        await soon(worker.result(await worker.submit("work")))

    assert cancelled.state is RunState.CANCELLED
    assert len(begun) == 1


async def test_a_renewal_that_came_too_late_does_not_stand_for_what_was_lost_before_it(
    watched: WatchedStore, clock: FakeClock, begun: list[int]
) -> None:
    """The renewer has a thread of its own, and may be faster than the loop when the process goes on."""
    worker = noting(Scheduler(store=watched, clock=clock, renew_every=0.005), begun)
    receipt = await worker.submit("work")
    claimed = watched.hold_back("step", answer=True)
    async with worker.running():
        await soon(claimed.wait())
        watched.fail("renew", times=10_000)
        await until(lambda: watched.faults > 0)  # no renewal of before is still on its way
        await clock.advance(LEASE + 1)
        await worker.cancel(receipt)
        watched.heal()
        renewed = watched.calls["renew"]
        await until(lambda: watched.calls["renew"] > renewed + 1)
        watched.let_go("step")
        await soon(worker.result(await worker.submit("work")))

    assert len(begun) == 1


async def test_a_worker_that_is_held_up_within_its_lease_asks_nothing(
    worker: Scheduler, watched: WatchedStore, clock: FakeClock, begun: list[int]
) -> None:
    receipt = await worker.submit("work")
    claimed = watched.hold_back("step", answer=True)
    async with worker.running():
        await soon(claimed.wait())
        asked = watched.calls["reclaim"]
        await clock.advance(LEASE - 0.5)
        watched.let_go("step")
        await soon(worker.result(receipt))
        calls = [step.call for step in watched.steps]

    assert begun == [1]
    assert watched.calls["reclaim"] == asked
    assert calls == sorted(set(calls))


async def test_a_worker_that_cannot_ask_begins_nothing_until_it_can(
    worker: Scheduler, watched: WatchedStore, clock: FakeClock, begun: list[int]
) -> None:
    receipt = await worker.submit("work")
    claimed = watched.hold_back("step", answer=True)
    async with worker.running():
        await soon(claimed.wait())
        await clock.advance(LEASE + 1)
        asks = watched.hold_back("reclaim")
        watched.let_go("step")
        await soon(asks.wait())
        await turns()
        before = list(begun)
        watched.let_go("reclaim")
        await soon(worker.result(receipt))

    assert (before, begun) == ([], [1])


async def test_a_worker_that_goes_on_after_its_lease_begins_nothing_of_a_lent_step_that_was_taken_over(
    postgres_url: str, clock: FakeClock, begun: list[int]
) -> None:
    store = IdleStore(postgres_url, clock)
    worker = noting(Scheduler(store=store, clock=clock), begun)
    async with worker.running():
        lender = await store.lender()
        store.loses_answers = True
        receipt = await worker.submit("work")
        await until(lambda: bool(store.answers))
        store.loses_answers = False
        await clock.advance(LEASE + 1)
        await take_over(store)
        [(handle, lent)] = store.answers
        handle.push(lent)
        value = await soon(worker.result(receipt))
    await store.close()

    assert handle is lender
    assert [run.fence for run in lent.reply.claimed] == [1]
    assert begun == [value] == [2]
