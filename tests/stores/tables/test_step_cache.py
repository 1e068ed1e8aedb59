"""What a step takes from the step before, of lanes and of its worker, is what the tables say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from laneway.core.lifecycle.step import Step
from laneway.core.records.policy import Lane
from laneway.errors import LeaseLost
from laneway.ports.gates import Held
from laneway.ports.moving import Shut
from laneway.ports.settings import Hold
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.state.lane_counts import LaneCounts
from laneway.stores.tables.verbs import steps
from laneway.testing import FakeClock, Hand, new_run
from tests.stores.postgres.tools import opened
from tests.support.invariants import check_invariants

LANES = [Lane(name, limit=3) for name in ("main", "a", "b", "c", "d")]


@pytest.fixture(autouse=True)
def spared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compare what is cached of workers with the tables; collects each use of the cache."""
    uses: list[str] = []
    missing_lane, take_step = LaneCounts.__missing__, steps.take_step

    def missing(counts: LaneCounts, name: str) -> object:
        uses.extend(["lane"] * (name in counts._cache.lanes))
        return missing_lane(counts, name)

    def step(db: Database, after_commit: AfterCommit, step: Step, now: int, cache: StepCache) -> object:
        known = steps._follows(step, cache)
        if known is not None:
            incarnation, left, call, *_ = db.execute("steps.worker", (step.incarnation,)).fetchone()
            assert (known, 0, step.call - 1) == (incarnation, left, call)
            assert steps._leaving(db) is None
            uses.append("worker")
        return take_step(db, after_commit, step, now, cache)

    monkeypatch.setattr(LaneCounts, "__missing__", missing)
    monkeypatch.setattr(steps, "take_step", step)
    return uses


async def test_steps_of_many_lanes_and_two_processes_know_what_the_tables_say(
    open_store: Callable[[], Store], clock: FakeClock, spared: list[str]
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
    assert {"lane", "worker"} <= set(spared)


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


async def test_a_worker_that_has_left_is_not_cached(open_store: Callable[[], Store], spared: list[str]) -> None:
    store = open_store()
    await store.open()
    hand = await Hand(store).register()
    await hand.claim()
    await hand.claim()
    assert spared.count("worker") == 1

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


async def test_behind_a_pooler_nothing_is_cached(postgres_url: str, spared: list[str]) -> None:
    async with opened(postgres_url, "pooled=yes") as store:
        hand = await Hand(store).register()
        for _ in range(3):
            await hand.claim()

    assert spared == []
