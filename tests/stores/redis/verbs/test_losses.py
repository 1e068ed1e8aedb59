"""A repair restores whatever lists and counts a Redis store has lost: no accepted run is stranded."""

import random

import pytest

from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock
from tests.stores.redis.codec.test_keys import busy
from tests.stores.redis.raw_keys import RawKeys
from tests.support.invariants import check_drains

# What cannot be told from anything else: what was accepted, said, and set, and who is there.
TOLD_ONCE = frozenset(
    (
        *("meta", "counters", "runs", "args", "ties", "follows", "results", "failures", "saved", "prepared", "memos"),
        *("log", "taken", "takers", "keys", "lanes", "declared", "ruled", "counts", "set_caps", "caps"),
        *("session_rules", "paused_sessions", "paused_users", "paused_tasks", "disabled", "worker_tasks", "heartbeat"),
        *("jobs", "jobspecs", "jobnames", "jobs_listed", "jobs_of", "fires", "recorded"),
    )
)
MEMBERS = {"zset": ("ZRANGE", "ZREM"), "set": ("SRANDMEMBER", "SREM"), "hash": ("HKEYS", "HDEL")}


@pytest.fixture
def store(redis_store: RedisStore) -> RedisStore:
    return redis_store


async def lose_something(raw: RawKeys, chance: random.Random) -> None:
    keys = sorted([(name, kind) async for name, kind in raw.all() if name.partition(":")[0] not in TOLD_ONCE])
    name, kind = chance.choice([key for key in keys if key[1] in MEMBERS])
    if chance.random() < 0.4:
        await raw.do("DEL", name)
        return
    listing, removal = MEMBERS[kind]
    bounds = {"zset": (0, -1), "set": (100,), "hash": ()}[kind]
    members = await raw.do(listing, name, *bounds)
    await raw.do(removal, name, chance.choice(sorted(members)))


@pytest.mark.parametrize("seed", range(12))
async def test_nothing_is_stranded_after_a_repair(store: RedisStore, raw: RawKeys, clock: FakeClock, seed: int) -> None:
    chance = random.Random(seed)
    await busy(store, clock)
    for _ in range(1 + seed % 3):
        await lose_something(raw, chance)

    found = await store.check()
    repaired = await store.check(repair=True)

    assert repaired == found
    assert await store.check() == []
    await check_drains(store, clock)
