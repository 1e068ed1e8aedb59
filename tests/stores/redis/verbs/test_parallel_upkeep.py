"""Upkeep of a Redis store while other clients use it, and do upkeep, too."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from laneway.core.records.states import TERMINAL
from laneway.ports.upkeep import OldDeltas, OldRuns
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.support.invariants import check_invariants

ALL = dict.fromkeys(TERMINAL, 0)


@pytest.fixture
async def doors(clock: FakeClock, redis_url: str) -> AsyncIterator[list[RedisStore]]:
    """Three store objects on one store."""
    stores = [RedisStore(redis_url, clock) for _ in range(3)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def work(store: RedisStore, going: asyncio.Event) -> int:
    """Submit and execute runs with users and sessions until told to stop; return how many batches there were."""
    hand, batches = await Hand(store, f"hand {id(store)}").register(), 0
    while not going.is_set():
        prefix = f"{id(store)}-{batches}"
        users = [new_run(f"{prefix}-{user}", user=user, lane="background") for user in "aabbc"]
        await store.submit([*users, *new_runs(3, prefix, session=f"chat {batches % 3}")])
        await hand.succeed(*await hand.claim(5))
        batches += 1
    return batches


async def test_a_healthy_store_has_nothing_to_find_while_others_write(doors: list[RedisStore]) -> None:
    one, other, doctor = doors
    over = asyncio.Event()
    working = [asyncio.create_task(work(store, over)) for store in (one, other)]

    found = [await doctor.check() for _ in range(30)]
    over.set()

    assert min(await asyncio.gather(*working)) > 3
    assert found == [[]] * 30
    assert await doctor.check(repair=True) == []
    await check_invariants(doctor, logs=False)


async def test_of_several_that_prune_each_run_is_counted_by_one(doors: list[RedisStore], clock: FakeClock) -> None:
    hand = await Hand(doors[0]).register()
    for batch in range(30):
        await doors[0].submit(new_runs(30, f"r{batch}"))
        await hand.succeed(*await hand.claim(30))
    await clock.advance(1)

    pruned = await asyncio.gather(*(store.prune(OldRuns(ALL), limit=1000) for store in doors))

    assert sum(pruned) == 900
    assert (await doors[0].depths()).runs == {}
    assert await doors[0].check() == []


async def test_several_may_trim_at_once_and_others_prune(doors: list[RedisStore], clock: FakeClock) -> None:
    hand = await Hand(doors[0]).register()
    await doors[0].submit(new_runs(30, "r"))
    runs = await hand.claim(30)
    for run in runs:
        for nth in range(20):
            await hand.emit(run, "delta", {"text": f"{nth} and quite a lot more of it"})
    await hand.succeed(*runs)
    await clock.advance(1)

    trimmed = await asyncio.gather(*(store.prune(OldDeltas(0)) for store in doors))
    logs = [[event.kind for event in await doors[1].events(run.id)] for run in runs]

    assert sum(trimmed) == 30
    assert logs == [["started", "trimmed", "result", "done"]] * 30
    await asyncio.gather(*(store.prune(OldDeltas(0)) for store in doors), doors[0].prune(OldRuns(ALL)))
    assert await doors[0].check() == []
