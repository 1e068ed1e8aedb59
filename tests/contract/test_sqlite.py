"""The SQLite store keeps the contract, through two store objects on one file and alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.sqlite import SQLiteStore
from laneway.testing import FakeClock
from tests.contract.alone import ContractAlone
from tests.contract.suite import StoreContract
from tests.support.many_doors import ManyDoors


class TestTwoSQLiteStoresOnOneFile(StoreContract):
    @pytest.fixture
    async def store(self, clock: FakeClock, sqlite_file: Path) -> AsyncIterator[Store]:
        store = ManyDoors(*(SQLiteStore(sqlite_file, clock) for _ in range(2)))
        await store.open()
        yield store
        await store.close()


class OneStore:
    @pytest.fixture
    async def store(self, clock: FakeClock, sqlite_file: Path) -> AsyncIterator[Store]:
        store = SQLiteStore(sqlite_file, clock)
        await store.open()
        yield store
        await store.close()


class TestSQLiteStore(OneStore, ContractAlone):
    pass


@pytest.mark.chaos
class TestWholeContractOnOneSQLiteStore(OneStore, StoreContract):
    pass
