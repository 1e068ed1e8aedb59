"""Disks that take their time, and a SQLite writer that has done all there was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from laneway.stores.sqlite import log_sync
from laneway.stores.sqlite.store import SQLiteStore
from tests.support.waits import until

real_sync = log_sync.sync_file


@contextmanager
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Make a disk whose syncs wait until the test lets them end."""
    free = threading.Event()

    def sync(descriptor: int) -> None:
        assert free.wait(10)
        real_sync(descriptor)

    monkeypatch.setattr(log_sync, "sync_file", sync)
    try:
        yield free.set
    finally:
        free.set()
        monkeypatch.setattr(log_sync, "sync_file", real_sync)


async def at_rest(store: SQLiteStore) -> None:
    """Wait until the writer has done all there was."""
    writer = store.access.runtime.writer
    await until(lambda: not writer.has_housekeeping and not writer.busy.locked())
