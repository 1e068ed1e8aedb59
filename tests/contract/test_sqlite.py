"""The SQLite store keeps the contract, also through two store objects on one file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.sqlite import SQLiteStore
from laneway.testing import FakeClock, ManyDoors, StoreContract


class TestSQLiteStore(StoreContract):
    @pytest.fixture
    async def store(self, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Store]:
        store = SQLiteStore(tmp_path / "laneway.db", clock)
        await store.open()
        yield store
        await store.close()


class TestTwoSQLiteStoresOnOneFile(StoreContract):
    @pytest.fixture
    async def store(self, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Store]:
        store = ManyDoors(*(SQLiteStore(tmp_path / "laneway.db", clock) for _ in range(2)))
        await store.open()
        yield store
        await store.close()
