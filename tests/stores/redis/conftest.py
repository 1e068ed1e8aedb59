"""A Redis store in a fresh namespace, and its keys without the store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock
from tests.stores.redis.raw_keys import RawKeys, raw_keys


@pytest.fixture
async def raw(redis_url: str) -> AsyncIterator[RawKeys]:
    async with raw_keys(redis_url) as raw:
        yield raw


@pytest.fixture
async def redis_store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, clock)
    await store.open()
    yield store
    await store.close()
