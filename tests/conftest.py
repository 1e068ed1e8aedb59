"""What holds for all tests."""

import asyncio
import shutil
import signal
from pathlib import Path

import pytest

from laneway.stores.sqlite import SQLiteStore
from laneway.testing import FakeClock

# A shell that starts the tests in the background makes them, and all they start, ignore Ctrl-C; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
