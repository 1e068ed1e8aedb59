"""A SQLite store on a fresh file, and a clock that stands still."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from laneway.stores.sqlite.connection import StoreFile, connect
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock


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


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(StoreFile(path, 1.0))) as db:
        yield db


@pytest.fixture
def database(db: sqlite3.Connection, clock: FakeClock) -> SQLiteDatabase:
    """Return the connection as the verbs see it."""
    return SQLiteDatabase(db, clock.now)
