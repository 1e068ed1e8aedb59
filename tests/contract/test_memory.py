"""The memory store keeps the contract."""

from collections.abc import AsyncIterator

import pytest

from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.contract.suite import *  # noqa: F403


@pytest.fixture
async def store(clock: FakeClock) -> AsyncIterator[Store]:
    store = MemoryStore(clock)
    await store.open()
    yield store
    await store.close()
