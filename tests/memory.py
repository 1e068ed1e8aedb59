"""A plugin of pytest that `make test` adds: temporary files are in memory, because many tests would wait for a disk.

Only where Linux has room for them there, and nobody set TMPDIR. Tests that are about a disk find one by
LANEWAY_TEST_DISK.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM = 2 * 2**30  # bytes: five times the use of the tests
PREFIX = "laneway-tests-"


def pytest_configure(config: pytest.Config) -> None:
    """Let this process, and all that it starts, make temporary files in a folder in memory."""
    if "TMPDIR" in os.environ or not has_room(MEMORY):
        return
    remove_left(MEMORY)
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY)
    Path(folder).chmod(0o711)  # a server that root starts as another user must find its own folder in it
    os.environ.update(TMPDIR=folder, LANEWAY_TEST_DISK=tempfile.gettempdir())
    tempfile.tempdir = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def has_room(memory: Path) -> bool:
    """Tell whether it has room for the files, and programs can be started from it."""
    usable = memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)
    return usable and shutil.disk_usage(memory).free >= ROOM and not os.statvfs(memory).f_flag & os.ST_NOEXEC


def remove_left(memory: Path) -> None:
    """Remove the folders of processes that were killed: their names say which process made them."""
    for left in memory.glob(f"{PREFIX}*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
