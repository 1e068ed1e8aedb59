"""One SQLite store object, alone with its file, keeps the parts of the contract in which its own memory takes part.

An object may remember what its last step knew, see at once what it has just written, and wake idle workers without
leaving the process; a second object makes it forget. What only asks and writes is the same through both, so `make test`
shows it once, through two objects, which shows more. `make chaos` shows everything through one object as well, and in
the model test every other store is alone.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock
from tests.contract.suite import (  # noqa: F401 - pytest collects them
    TestBreakers,
    TestCaps,
    TestClaims,
    TestJobWakeups,
    TestLanes,
    TestLeases,
    TestLogs,
    TestLostJobReplies,
    TestReading,
    TestRepeats,
    TestSessions,
    TestSettling,
    TestSubmissions,
    TestWakeups,
)


@pytest.fixture
async def store(clock: FakeClock, sqlite_file: Path) -> AsyncIterator[Store]:
    store = SQLiteStore(sqlite_file, clock)
    await store.open()
    yield store
    await store.close()
