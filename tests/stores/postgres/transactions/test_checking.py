"""A check reads whole tables, and must not do so row by row."""

from __future__ import annotations

from contextlib import closing

import pytest

from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import connect_bare
from laneway.stores.postgres.server.settings import set_up
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import FakeClock

RUNS = """
INSERT INTO run SELECT n, n, n, n, 0, 'run' || n, 'work', 'main', 'user' || n % 100, NULL, NULL, NULL, NULL, '{}'
    FROM generate_series(1, 20000) AS n;
INSERT INTO outcome SELECT n, NULL, n, n, 1, 0, 1, 2, 'succeeded', NULL, NULL, '1', '[["done",1,1,{}]]'
    FROM generate_series(1, 20000) AS n;
INSERT INTO event SELECT n, 1, '[["started",1,1,{}]]' FROM generate_series(1, 20000) AS n;
"""


# All of it was here once, and is gone: the server believes that a page of such a table has no rows.
GONE = f"{RUNS} DELETE FROM run; DELETE FROM outcome; DELETE FROM event; ANALYZE run, outcome, event;"


@pytest.mark.parametrize("before", ["", GONE], ids=["new", "analyzed"])
async def test_a_check_of_many_runs_ends_in_time_though_the_store_was_empty_before(
    postgres_url: str, before: str
) -> None:
    store = PostgresStore(postgres_url, FakeClock())
    await store.open()
    try:
        assert await store.check() == []
        address = Address.parse(postgres_url)
        with closing(connect_bare(address)) as link:
            link.execute((set_up(address) + before + RUNS).encode())

        assert await store.check() == []
    finally:
        await store.close()
