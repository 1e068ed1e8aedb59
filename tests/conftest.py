"""What holds for all tests."""

import asyncio
import contextlib
import gc
import importlib
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import connect_bare, empty_schema
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock
from laneway.testing.servers import GivenServer, Postgres, PostgresServer, Server, any_postgres, any_server
from tests.ordering import files_below, shares, spread
from tests.stores.postgres.kept_connections import close_kept_links

# Their assertions are shown as those of tests are.
pytest.register_assert_rewrite("tests.contract.suite", "tests.model", "tests.support")

NAMESPACES = count(1)
SCHEMAS = count(1)

# A shell that starts the tests in the background makes them, and all they start, ignore Ctrl-C; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# How long an example takes is the machine's affair; in CI, Hypothesis says so itself.
settings.register_profile("busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# What is collected lives as long as the process. To look through it for garbage, again and again while it grows, takes
# a third of the time of collecting.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each process import a part of the files first, so that not all of them rewrite the assertions of each."""
    given = getattr(session.config, "workerinput", None)
    if given is None:
        return
    nth, root = int(given["workerid"].removeprefix("gw")), session.config.rootpath
    for file in shares(files_below(session.config.args, root), given["workercount"])[nth]:
        # What is wrong with one is said when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files without a test of that kind, where tests of the wall clock alone are wanted: most of all."""
    unwanted = config.option.markexpr == "wall_clock" and collection_path.suffix == ".py"
    return True if unwanted and b"wall_clock" not in collection_path.read_bytes() else None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Take it for success that none of the tests that were asked for is about the wall clock."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.option.markexpr == "wall_clock":
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in the docstrings of tests."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no thousands of items of a file only to leave all of them out."""
    unwanted = collector.config.option.markexpr.startswith("not chaos") and isinstance(obj, type)
    return [] if unwanted and collector.get_closest_marker("chaos") is not None else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the tests that wait for real processes begin first."""
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    items[:] = spread(items, workers, lambda item: item.get_closest_marker("system") is not None)


def pytest_collection_finish() -> None:
    """Look for garbage from here on, but not in what was collected."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with nothing in it: a copy takes a tenth of the time that making one through all layouts does."""

    async def make() -> None:
        store = SQLiteStore(path, FakeClock())
        await store.open()
        await store.close()

    path = tmp_path_factory.mktemp("empty") / "laneway.db"
    asyncio.run(make())
    return path


@pytest.fixture
def sqlite_file(empty_file: Path, tmp_path: Path) -> Path:
    """A SQLite store with nothing in it, of the test's own."""
    return Path(shutil.copy(empty_file, tmp_path / "laneway.db"))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """A server that all tests of this process share; who kills or configures one starts it with `valkey_server`."""
    with any_server() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: Server) -> str:
    """The URL of an empty server, with a namespace of the test's own."""
    # One that is given is shared with others, and not ours to empty; a namespace of our own is empty as well.
    if not isinstance(redis_server, GivenServer):
        redis_server.command("FLUSHALL")
    more = "&" if "?" in redis_server.url else "?"
    return f"{redis_server.url}{more}namespace=test-{os.getpid()}-{next(NAMESPACES)}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A server that all tests of this process share; who kills or configures one starts it by itself."""
    with any_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a database that all tests of this process share."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(scope="session")
def emptied_schema(postgres_server: Postgres, postgres_database: str) -> Iterator[Callable[[], str]]:
    """Give what empties a schema that a store was made in, and returns its URL: a tenth of the work of a new one."""
    # More patience than a store has by itself: the machine may be busy.
    url = _in_schema(_by_socket(postgres_server, postgres_database), f"test_{os.getpid()}") + "&timeout=30"

    async def make() -> None:
        store = PostgresStore(url, FakeClock())
        await store.open()
        await store.close()

    asyncio.run(make())
    address = Address.parse(url)
    link = connect_bare(address)

    def empty() -> str:
        empty_schema(link, address)
        return url

    yield empty
    link.close()
    close_kept_links()


@pytest.fixture
def postgres_url(emptied_schema: Callable[[], str]) -> str:
    """The URL of a store with nothing in it."""
    return emptied_schema()


@pytest.fixture
def postgres_place(postgres_database: str) -> str:
    """The URL of a schema of the test's own, which is not there yet."""
    return _in_schema(postgres_database, f"test_{os.getpid()}_{next(SCHEMAS)}")


def _by_socket(server: Postgres, database: str) -> str:
    """Return the database's URL by the server's socket, if it is ours: an eighth less of the processors' time."""
    if not isinstance(server, PostgresServer):
        return database
    return server.socket_url.replace("/postgres?", f"/{database.rpartition('/')[2]}?")


def _in_schema(database: str, schema: str) -> str:
    return f"{database}{'&' if '?' in database else '?'}schema={schema}"
