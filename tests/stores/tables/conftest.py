"""Stores over tables: the same one as often as a test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock


@pytest.fixture(params=["sqlite", "postgres"])
async def open_store(
    request: pytest.FixtureRequest, path: Path, clock: FakeClock, postgres_url: str
) -> AsyncIterator[Callable[[], Store]]:
    """Open the same store over tables as often as a test wants, each as a process of its own would."""
    opened: list[Store] = []

    def another() -> Store:
        sqlite = request.param == "sqlite"
        opened.append(SQLiteStore(path, clock) if sqlite else PostgresStore(postgres_url, clock))
        return opened[-1]

    yield another
    for store in opened:
        await store.close()
