"""One Redis store object keeps the contract; in `make chaos`.

A store object remembers nothing between two calls, so one alone does what two do.
"""

from collections.abc import AsyncIterator

import pytest

from laneway.ports.store import Store
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock
from tests.contract.suite import *  # noqa: F403

pytestmark = pytest.mark.chaos


@pytest.fixture
async def store(clock: FakeClock, redis_url: str) -> AsyncIterator[Store]:
    store = RedisStore(redis_url, clock)
    await store.open()
    yield store
    await store.close()
