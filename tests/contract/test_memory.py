"""The memory store keeps the contract."""

from collections.abc import AsyncIterator

import pytest

from laneway.ports.store import Store
from laneway.stores.memory import MemoryStore
from laneway.testing import FakeClock
from tests.contract.suite import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self, clock: FakeClock) -> AsyncIterator[Store]:
        store = MemoryStore(clock)
        await store.open()
        yield store
        await store.close()
