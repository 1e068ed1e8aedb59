"""The Redis store keeps the contract, through two store objects in one namespace."""

from collections.abc import AsyncIterator

import pytest

from laneway.ports.store import Store
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock
from tests.contract.suite import *  # noqa: F403
from tests.support.many_doors import ManyDoors


@pytest.fixture
async def store(clock: FakeClock, redis_url: str) -> AsyncIterator[Store]:
    store = ManyDoors(*(RedisStore(redis_url, clock) for _ in range(2)))
    await store.open()
    yield store
    await store.close()
