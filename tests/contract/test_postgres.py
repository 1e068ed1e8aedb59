"""The PostgreSQL store keeps the contract, through two store objects in one schema; alone, in `make chaos`.

What an object remembers by itself is the code that SQLite's contract shows alone, too; the model test takes both turns.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from laneway.ports.store import Store
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import FakeClock
from tests.contract.suite import StoreContract
from tests.stores.postgres_links import links_kept
from tests.support.many_doors import ManyDoors


@pytest.fixture(autouse=True)
def handed_on() -> Iterator[None]:
    """Connections go from test to test, with the plans of their statements."""
    with links_kept():
        yield


class TestTwoPostgresStoresInOneSchema(StoreContract):
    @pytest.fixture
    async def store(self, clock: FakeClock, postgres_url: str) -> AsyncIterator[Store]:
        store = ManyDoors(*(PostgresStore(postgres_url, clock) for _ in range(2)))
        await store.open()
        yield store
        await store.close()


@pytest.mark.chaos
class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, clock: FakeClock, postgres_url: str) -> AsyncIterator[Store]:
        store = PostgresStore(postgres_url, clock)
        await store.open()
        yield store
        await store.close()
