"""The SQLite store keeps the contract, through two store objects on one file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock
from tests.contract.suite import *  # noqa: F403
from tests.support.many_doors import ManyDoors


@pytest.fixture
async def store(clock: FakeClock, sqlite_file: Path) -> AsyncIterator[Store]:
    store = ManyDoors(*(SQLiteStore(sqlite_file, clock) for _ in range(2)))
    await store.open()
    yield store
    await store.close()
