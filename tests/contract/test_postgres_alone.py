"""One PostgreSQL store object keeps the contract; in `make chaos`.

What an object remembers by itself is the code that SQLite's contract shows alone, too; the model test takes both turns.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from laneway.ports.store import Store
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import FakeClock
from tests.contract.suite import *  # noqa: F403
from tests.stores.postgres.kept_connections import links_kept

pytestmark = pytest.mark.chaos


@pytest.fixture(autouse=True)
def handed_on() -> Iterator[None]:
    """Connections go from test to test, with the plans of their statements."""
    with links_kept():
        yield


@pytest.fixture
async def store(clock: FakeClock, postgres_url: str) -> AsyncIterator[Store]:
    store = PostgresStore(postgres_url, clock)
    await store.open()
    yield store
    await store.close()
