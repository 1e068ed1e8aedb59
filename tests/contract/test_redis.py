"""The Redis store keeps the contract, through two store objects in one namespace and alone."""

from collections.abc import AsyncIterator

import pytest

from laneway.ports.store import Store
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, ManyDoors, StoreContract


class TestTwoRedisStoresInOneNamespace(StoreContract):
    @pytest.fixture
    async def store(self, clock: FakeClock, redis_url: str) -> AsyncIterator[Store]:
        store = ManyDoors(*(RedisStore(redis_url, clock) for _ in range(2)))
        await store.open()
        yield store
        await store.close()


@pytest.mark.chaos
class TestRedisStore(StoreContract):
    """A store object remembers nothing between two calls, so one alone does what two do."""

    @pytest.fixture
    async def store(self, clock: FakeClock, redis_url: str) -> AsyncIterator[Store]:
        store = RedisStore(redis_url, clock)
        await store.open()
        yield store
        await store.close()
