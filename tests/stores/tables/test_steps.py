"""Steps of many lanes and of two processes, repeated steps, and steps of workers that may not make any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from laneway.core.records.policy import Lane
from laneway.errors import LeaseLost
from laneway.ports.gates import Held
from laneway.ports.moves import Shut
from laneway.ports.settings import Hold
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock, Hand, new_run
from tests.support.invariants import check_invariants

LANES = [Lane(name, limit=3) for name in ("main", "a", "b", "c", "d")]


async def test_steps_of_many_lanes_and_two_processes_leave_the_tables_right(
    open_store: Callable[[], Store], clock: FakeClock
) -> None:
    random, stores = Random(9), [open_store(), open_store()]
    for store in stores:
        await store.open()
    await stores[0].declare_lanes(LANES)
    hands = [await Hand(store, f"hand{nth}").register() for nth, store in enumerate(stores)]

    async def live(nth: int, at: int) -> None:
        store, hand, what = stores[nth], hands[nth], random.randrange(8)
        lane = random.choice(LANES).name
        if what == 0:
            delay = random.choice((0, 5))
            await store.submit([new_run(f"{at}-{nth}-{n}", lane=lane, delay=delay) for n in range(random.randrange(9))])
        elif what == 1:
            await store.set(Hold(Held.LANE, lane, held=random.random() < 0.3))
        elif what == 2:
            hand.renew()
        claimed = await hand.claim(random.randrange(1, 6))
        await clock.advance(random.randrange(3))
        await hand.succeed(*claimed, room=random.choice((0, 2)))
        await hand.stop(*(await hand.claim(2)))

    for at in range(60):
        for nth in random.choice(([0], [0], [1], [0, 1])):
            await live(nth, at)
    await check_invariants(stores[0])


async def test_lanes_that_a_claim_has_emptied_get_no_share_any_more(
    open_store: Callable[[], Store], clock: FakeClock
) -> None:
    claims: list[list[list[str]]] = []
    for store in (MemoryStore(clock), open_store()):
        await store.open()
        await store.declare_lanes([Lane(name, limit=100) for name in "abcdf"])
        await store.submit([new_run(lane, lane=lane) for lane in "bdf"])
        await store.submit([new_run(f"{lane}{n}", lane=lane) for lane in "ac" for n in range(20)])
        hand = await Hand(store).register()
        claims.append([[run.id for run in await hand.claim(room)] for room in (5, 5, 5, 5, 3, 3, 3)])

    assert claims[0] == claims[1]


async def test_a_worker_that_has_left_is_refused(open_store: Callable[[], Store]) -> None:
    store = open_store()
    await store.open()
    hand = await Hand(store).register()
    await hand.claim()
    await hand.claim()

    await hand.leave()
    with pytest.raises(LeaseLost):
        await hand.claim()


async def test_a_copy_of_an_older_step_is_answered_as_before(open_store: Callable[[], Store]) -> None:
    store = open_store()
    await store.open()
    await store.submit([new_run("a"), new_run("b")])
    hand = await Hand(store).register()
    await hand.claim()
    [run] = await hand.claim()

    again = await asyncio.gather(hand.repeat_last(), hand.repeat_last())

    assert [reply.claimed for reply in again] == [[run], [run]]


async def test_a_store_that_is_shut_tells_every_step(open_store: Callable[[], Store]) -> None:
    store = open_store()
    await store.open()
    hand = await Hand(store).register()
    await hand.claim()
    await store.move(Shut("move", "elsewhere"))

    assert [(await hand.step(room=1)).moved for _ in range(3)] == ["elsewhere"] * 3
