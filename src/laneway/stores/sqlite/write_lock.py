"""The write lock of a file: processes take it one after another, and none starves.

SQLite waits for its write lock in a loop of sleeps that grow to 100 ms, and any process that comes by in between gets
the lock. Beside one busy process another waited a second and more (measured), and could run into its time-out. So
every process that wants the write lock first takes a kernel lock on `<file>-lock`, and keeps it *until it has the write
lock*. A busy process that has just committed finds the kernel lock held by the one that waits, and comes second.

Both locks end with their process. The kernel lock is polled, with sleeps of at most 2 ms, because the kernel has no
time-out for it. The lock file stays: deleting it would race with its next holder.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import time
from collections.abc import Iterator

from laneway.stores.sqlite.connection import StoreFile

_FIRST_NAP, _LONGEST_NAP = 0.0002, 0.002


class WriteLock:
    """The way of this process to the write lock of one file."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self._descriptor: int | None = None

    def begin(self, db: sqlite3.Connection) -> None:
        """Begin a transaction that holds the write lock. Raises SQLite's error if it is not free in time."""
        if self._descriptor is None:
            self._descriptor = self._open()
        naps, descriptor = self._naps(), self._descriptor
        # Without the kernel lock if it cannot be taken, or not in time: then SQLite says what is wrong.
        locked = descriptor is not None and self._lock(descriptor, naps)
        try:
            self._begin(db, naps)
        finally:
            if locked and descriptor is not None:
                _unlock(descriptor)

    def close(self) -> None:
        """Close the lock file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _begin(self, db: sqlite3.Connection, naps: Iterator[bool]) -> None:
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or not next(naps, False):
                    raise

    def _open(self) -> int | None:
        # The file may belong to another user; the right to read it is enough to lock it.
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            with contextlib.suppress(OSError):
                return os.open(f"{self._file.path}-lock", flags, 0o644)
        return None

    def _lock(self, descriptor: int, naps: Iterator[bool]) -> bool:
        while not _try_lock(descriptor):
            if not next(naps, False):
                return False
        return True

    def _naps(self) -> Iterator[bool]:
        """Yield after each nap, until the busy timeout is over."""
        end, nap = time.monotonic() + self._file.busy_timeout, _FIRST_NAP
        while time.monotonic() < end:
            time.sleep(nap)
            yield True
            nap = min(1.5 * nap, _LONGEST_NAP)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
