"""A Redis store that has lost its last moment, as after a power cut: steps are gone that workers got replies to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from laneway.errors import LeaseLost
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_runs
from tests.support.invariants import check_invariants


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, FakeClock())
    await store.open()
    yield store
    await store.close()


async def test_a_worker_whose_steps_are_gone_ends_and_what_it_holds_is_taken_over(store: RedisStore) -> None:
    hand, heir = await Hand(store).register(), await Hand(store, "heir").register()
    await store.submit(new_runs(3, "run"))
    runs = await hand.claim(2)
    hand.last = msgspec.structs.replace(hand.last, call=2)  # of which the store knows nothing

    with pytest.raises(LeaseLost):
        await hand.succeed(*runs, room=1)

    with pytest.raises(LeaseLost):
        hand.renew()
    lapsed = (await heir.reclaim()).lapsed
    assert [(run.number, run.fence) for run in lapsed] == [(run.number, run.fence) for run in runs]
    await heir.lapse(*lapsed)
    assert (await store.depths()).runs == {"pending": 3}
    await check_invariants(store)
