"""A SQLite store on a fresh file, a Redis store in a fresh namespace, and a clock that stands still."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.redis.store import RedisStore
from laneway.stores.sqlite import log_sync
from laneway.stores.sqlite.connection import StoreFile, connect
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock
from tests.stores.sqlite.slow_disk import real_sync


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "laneway.db"


@pytest.fixture
def patience() -> float:
    """How many seconds a store waits for a lock."""
    return 5.0


@pytest.fixture
async def store(path: Path, empty_file: Path, clock: FakeClock, patience: float) -> AsyncIterator[SQLiteStore]:
    shutil.copy(empty_file, path)
    store = SQLiteStore(path, clock, busy_timeout=patience)
    await store.open()
    yield store
    await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def open_store(
    request: pytest.FixtureRequest, path: Path, clock: FakeClock, postgres_url: str
) -> AsyncIterator[Callable[[], Store]]:
    """Make the same store over tables as often as is wanted, each as a process of its own would."""
    opened: list[Store] = []

    def another() -> Store:
        sqlite = request.param == "sqlite"
        opened.append(SQLiteStore(path, clock) if sqlite else PostgresStore(postgres_url, clock))
        return opened[-1]

    yield another
    for store in opened:
        await store.close()


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(StoreFile(path, 1.0))) as db:
        yield db


@pytest.fixture
def database(db: sqlite3.Connection, clock: FakeClock) -> SQLiteDatabase:
    """Return the connection as the verbs see it."""
    return SQLiteDatabase(db, clock.now)


@pytest.fixture
async def redis_store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that were synced."""
    found: list[int] = []

    def sync(descriptor: int) -> None:
        found.append(descriptor)
        real_sync(descriptor)

    monkeypatch.setattr(log_sync, "sync_file", sync)
    return found
