"""The tools of `laneway.testing` do what the tests rely on."""

import asyncio
from datetime import timedelta
from random import Random

import pytest

from laneway.core.common.instants import SECOND
from laneway.errors import StoreUnavailable
from laneway.ports.clock import Clock
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.support.invariants import check_drains, check_invariants
from tests.support.lossy_store import LossyStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Store:
    return MemoryStore(clock)


async def test_a_fake_clock_is_a_clock_that_stands_still(clock: FakeClock) -> None:
    as_port: Clock = clock
    start = as_port.now()

    await asyncio.sleep(0)

    assert (as_port.now(), as_port.monotonic()) == (start, 0.0)


@pytest.mark.parametrize("by", [1.5, timedelta(seconds=1.5)])
async def test_advancing_moves_both_clocks(clock: FakeClock, by: float | timedelta) -> None:
    start = clock.now()

    await clock.advance(by)

    assert (clock.now() - start, clock.monotonic()) == (1_500_000, 1.5)


async def test_stepping_moves_the_wall_clock_alone_also_back(clock: FakeClock) -> None:
    start = clock.now()

    clock.step(-3600)

    assert (clock.now() - start, clock.monotonic()) == (-3600 * SECOND, 0.0)


async def test_monotonic_time_never_goes_back(clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="monotonic time never goes back"):
        await clock.advance(-1)


async def test_sleepers_wake_in_the_order_of_their_times_and_see_them(clock: FakeClock) -> None:
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper("a", 3, 3)), asyncio.create_task(sleeper("b", 1, 1, 1, 9))]
    await clock.advance(6)

    assert woken == [("b", 1.0), ("b", 2.0), ("a", 3.0), ("b", 3.0), ("a", 6.0)]
    assert clock.sleepers == 1
    await clock.advance(100)
    await asyncio.gather(*tasks)


async def test_a_sleeper_that_was_cancelled_is_passed_over(clock: FakeClock) -> None:
    task = asyncio.create_task(clock.sleep(5))
    await asyncio.sleep(0)
    task.cancel()

    await clock.advance(10)

    assert task.cancelled()
    assert clock.sleepers == 0


async def test_a_sleep_counts_from_the_call_though_its_task_begins_later(clock: FakeClock) -> None:
    task = asyncio.ensure_future(clock.sleep(1))
    clock._move_to(SECOND)  # as it may in the turn in which the task is made
    await asyncio.sleep(0)

    await clock.advance(0)

    assert task.done()


async def test_a_sleep_of_nothing_gives_way_once(clock: FakeClock) -> None:
    others: list[str] = []
    asyncio.get_running_loop().call_soon(others.append, "had a turn")

    await asyncio.wait_for(clock.sleep(0), 1)
    await asyncio.wait_for(clock.sleep(-1), 1)

    assert others == ["had a turn"]
    assert clock.monotonic() == 0


async def test_a_lossy_store_fails_before_or_after_as_planned(store: Store) -> None:
    lossy = LossyStore(store)
    lossy.fail("submit")
    lossy.lose_reply("submit")

    with pytest.raises(StoreUnavailable) as before:
        await lossy.submit([new_run("a")])
    assert (await store.depths()).runs == {}
    with pytest.raises(StoreUnavailable) as after:
        await lossy.submit([new_run("a")])
    assert (await store.depths()).runs == {"pending": 1}
    await lossy.submit([new_run("a")])

    assert (before.value.maybe_done, after.value.maybe_done, lossy.faults) == (False, True, 2)


async def test_a_lossy_store_loses_plain_calls_too(store: Store) -> None:
    lossy = LossyStore(store)
    hand = await Hand(lossy).register()
    lossy.fail("renew")
    lossy.lose_reply("renew")

    for maybe_done in (False, True):
        with pytest.raises(StoreUnavailable) as lost:
            hand.renew()
        assert lost.value.maybe_done is maybe_done
    assert hand.renew().leases == []


async def test_chance_makes_a_share_of_all_calls_fail(store: Store) -> None:
    lossy = LossyStore(store, chance=0.5, random=Random(1))
    for _ in range(200):
        try:
            await lossy.depths()
        except StoreUnavailable:
            continue

    assert 60 < lossy.faults < 140


async def test_a_lossy_store_is_a_store(store: Store, clock: FakeClock) -> None:
    lossy: Store = LossyStore(store)
    hand = await Hand(lossy).register()
    stop = lossy.watch(lambda: None)
    await lossy.open()
    await lossy.submit(new_runs(3, "r", session="chat"))
    await hand.succeed(*await hand.claim(3))
    await hand.leave()

    await check_invariants(lossy)
    await check_drains(lossy, clock)

    stop()
    assert not lossy.look()
    await lossy.close()


async def test_a_stranded_run_is_seen(store: Store, clock: FakeClock) -> None:
    assert isinstance(store, MemoryStore)
    await store.submit([new_run("a", session="chat"), new_run("b", session="chat")])
    store._state.sessions["chat"].admitted.append(999)

    with pytest.raises(AssertionError):
        await check_drains(store, clock)


async def test_a_leaked_slot_is_seen(store: Store) -> None:
    assert isinstance(store, MemoryStore)
    store._lanes["main"].active += 1

    with pytest.raises(AssertionError):
        await check_invariants(store)
    with pytest.raises(AssertionError):
        await check_drains(store, FakeClock())


async def test_a_session_that_is_left_when_all_has_ended_is_seen(store: Store, clock: FakeClock) -> None:
    assert isinstance(store, MemoryStore)
    hand = await Hand(store).register()
    await store.submit([new_run("a", session="chat")])
    left = store._state.sessions["chat"]
    await hand.succeed(*await hand.claim())
    await check_drains(store, clock)
    store._state.sessions["chat"] = left

    with pytest.raises(AssertionError):
        await check_drains(store, clock)


async def test_a_worker_that_rests_beside_work_is_seen(store: Store) -> None:
    assert isinstance(store, MemoryStore)
    hand = await Hand(store).register()
    await hand.rest()
    await store.submit([new_run("a")])
    await check_invariants(store)
    store._workers["hand"].idle = True

    with pytest.raises(AssertionError):
        await check_invariants(store)
