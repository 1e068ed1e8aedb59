"""A clock moved by hand, and a scheduler on each store there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path

import pytest
import pytest_asyncio

from laneway import Scheduler
from laneway.ports.store import Store
from laneway.stores.memory import MemoryStore
from laneway.testing import FakeClock
from tests.engine.support import WatchedStore, scheduler_on


def _has_sqlite() -> bool:
    try:
        import_module("laneway.stores.sqlite")
    except ImportError:
        return False
    return True


STORES = ["memory", "sqlite"] if _has_sqlite() else ["memory"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'laneway.db'}"


@pytest_asyncio.fixture
async def app(url: str, clock: FakeClock) -> AsyncIterator[Scheduler]:
    """A scheduler on a store of its own, one of each kind in turn, on the clock moved by hand."""
    async with Scheduler(url, clock=clock) as app:
        yield app


@pytest.fixture
def memory(clock: FakeClock) -> Store:
    return MemoryStore(clock)


@pytest.fixture
def watched(memory: Store) -> WatchedStore:
    """A memory store whose calls are counted, held back, or made to fail."""
    return WatchedStore(memory)


@pytest_asyncio.fixture
async def lossy(watched: WatchedStore, clock: FakeClock) -> AsyncIterator[Scheduler]:
    """A scheduler on the watched store."""
    async with scheduler_on(watched, clock) as app:
        yield app
