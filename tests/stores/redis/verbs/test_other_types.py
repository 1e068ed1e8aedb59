"""A key of another type in the way of a submission to Redis: a refused submission leaves no run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.run import NewRun
from laneway.errors import NotAStore
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_run
from laneway.testing.servers import Server
from tests.support.invariants import all_runs, check_drains


@pytest.fixture
async def store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, clock)
    await store.open()
    await store.declare_lanes([Lane("main"), Lane("side")])
    yield store
    await store.close()


BATCHES = {
    "plain": [new_run("a")],
    "long": [new_run("a", args={"text": "x" * 5000})],
    "many": [new_run(f"a{nth}") for nth in range(1200)],
    "of a user": [new_run("a", user="ann")],
    "of a session": [new_run("a", session="s"), new_run("b", session="s")],
    "with a key": [new_run("a", key="k")],
    "of several lanes": [new_run("a", lane="side"), new_run("b"), new_run("c", lane="side", session="s")],
    "later": [new_run("a", delay=1), new_run("b")],
}


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("key", ["ready:main", "runs", "blocks", "working", "counters"])
async def test_a_refused_submission_leaves_no_run(
    store: RedisStore, redis_url: str, redis_server: Server, clock: FakeClock, batch: list[NewRun], key: str
) -> None:
    name = f"{Address.parse(redis_url).prefix}:{key}"
    redis_server.command("SET", name, "of another program")

    with pytest.raises(NotAStore, match="a key of another type is in the way"):
        await store.submit(batch)

    redis_server.command("DEL", name)
    await store.check(repair=True)
    assert await all_runs(store) == []
    await store.submit(batch)
    assert len(await all_runs(store)) == len(batch)
    await clock.advance(60)
    await check_drains(store, clock)


async def test_one_that_a_worker_would_have_taken_at_once_is_not_there_either(
    store: RedisStore, redis_url: str, redis_server: Server, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await hand.offer_step()
    name = f"{Address.parse(redis_url).prefix}:states"
    redis_server.command("SET", name, "of another program")

    with pytest.raises(NotAStore):
        await store.submit([new_run("a")])

    redis_server.command("DEL", name)
    await store.check(repair=True)
    assert await all_runs(store) == []
