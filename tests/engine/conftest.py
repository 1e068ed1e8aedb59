"""A clock moved by hand, and a scheduler on each store there is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path

import pytest
import pytest_asyncio

from laneway import Scheduler
from laneway.core.records.codec import RESULT_LIMIT
from laneway.engine.children.pool import ChildPool
from laneway.engine.common.clock import SystemClock
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.support.children.kept import children_kept, let_children_go
from tests.support.children.runner import ChildRunner
from tests.support.scheduler_jobs import Started, with_tasks
from tests.support.scripts.runner import WAYS, ScriptRunner, register
from tests.support.watched_store import WatchedStore


def _has_sqlite() -> bool:
    try:
        import_module("laneway.stores.sqlite")
    except ImportError:
        return False
    return True


STORES = ["memory", "sqlite"] if _has_sqlite() else ["memory"]


def address(store: str, folder: Path) -> str:
    return "memory://" if store == "memory" else f"sqlite:///{folder / 'laneway.db'}"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, sqlite_file: Path) -> str:
    return address(request.param, sqlite_file.parent)


@pytest_asyncio.fixture
async def app(url: str, clock: FakeClock) -> AsyncIterator[Scheduler]:
    """A scheduler on a store of its own, one of each kind in turn, on the clock moved by hand."""
    async with Scheduler(url, clock=clock) as app:
        yield app


@pytest_asyncio.fixture
async def child_runner() -> AsyncIterator[ChildRunner]:
    """What executes handlers in child processes."""
    children = ChildPool(SystemClock(), RESULT_LIMIT)
    yield ChildRunner(children)
    await children.close()


@pytest_asyncio.fixture
async def jobs_app(url: str, clock: FakeClock) -> AsyncIterator[Scheduler]:
    """A scheduler with tasks for jobs, on each store that keeps them."""
    async with with_tasks(Scheduler(url, clock=clock)) as app:
        yield app


@pytest.fixture
def started(clock: FakeClock) -> Started:
    """Notes of what jobs start."""
    return Started(clock)


@pytest.fixture
def worker(app: Scheduler, started: Started) -> Scheduler:
    """A scheduler whose task `work` notes its starts."""
    return started.on(app)


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
    async with Scheduler(store=watched, clock=clock) as app:
        yield app


# A child process does not know what store its worker has.
RUNNERS = [(way, store) for way in WAYS for store in STORES if not way.process or (store == "memory") is way.is_async]


@pytest.fixture(scope="session")
def kept_children() -> Iterator[None]:
    """Child processes that one test hands on to the next, until the last test is over."""
    yield
    let_children_go()


@pytest_asyncio.fixture(params=RUNNERS, ids=lambda runner: f"{runner[0].name}-{runner[1]}")
async def runner(
    request: pytest.FixtureRequest, sqlite_file: Path, clock: FakeClock, kept_children: None
) -> AsyncIterator[ScriptRunner]:
    """A scheduler that executes scripts, in each way in turn; `@pytest.mark.work(...)` gives options of its task."""
    (way, store), folder = request.param, sqlite_file.parent
    marked = request.node.get_closest_marker("work")
    with children_kept():
        async with Scheduler(address(store, folder), clock=clock) as app:
            register(app, way, **({} if marked is None else marked.kwargs))
            yield ScriptRunner(app, way, folder, clock)
