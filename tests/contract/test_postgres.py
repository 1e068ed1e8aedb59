"""The PostgreSQL store keeps the contract, through two store objects in one schema."""

from collections.abc import AsyncIterator, Iterator

import pytest

from laneway.ports.store import Store
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import FakeClock
from tests.contract.suite import *  # noqa: F403
from tests.stores.postgres.kept_connections import links_kept
from tests.support.many_doors import ManyDoors


@pytest.fixture(autouse=True)
def handed_on() -> Iterator[None]:
    """Connections go from test to test, with the plans of their statements."""
    with links_kept():
        yield


@pytest.fixture
async def store(clock: FakeClock, postgres_url: str) -> AsyncIterator[Store]:
    store = ManyDoors(*(PostgresStore(postgres_url, clock) for _ in range(2)))
    await store.open()
    yield store
    await store.close()
