"""The keys of the Redis store under test, without the store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.stores.redis.raw_keys import RawKeys, raw_keys


@pytest.fixture
async def raw(redis_url: str) -> AsyncIterator[RawKeys]:
    async with raw_keys(redis_url) as raw:
        yield raw
