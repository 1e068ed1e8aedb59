"""The SQLite store keeps the contract, binding all it can; in `make chaos`."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.contract.binding import bound_if_possible

from laneway.ports.store import Store
from laneway.stores.sqlite import SQLiteStore
from laneway.testing import FakeClock
from tests.contract.suite import *  # noqa: F403
from tests.support.many_doors import ManyDoors

pytestmark = pytest.mark.chaos


@pytest.fixture(autouse=True)
def binding() -> Iterator[None]:
    with bound_if_possible():
        yield


@pytest.fixture
async def store(clock: FakeClock, sqlite_file: Path) -> AsyncIterator[Store]:
    store = ManyDoors(*(SQLiteStore(sqlite_file, clock) for _ in range(2)))
    await store.open()
    yield store
    await store.close()
