"""One SQLite store object, alone with its file, keeps the whole contract; in `make chaos`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock
from tests.contract.suite import *  # noqa: F403

pytestmark = pytest.mark.chaos


@pytest.fixture
async def store(clock: FakeClock, sqlite_file: Path) -> AsyncIterator[Store]:
    store = SQLiteStore(sqlite_file, clock)
    await store.open()
    yield store
    await store.close()
