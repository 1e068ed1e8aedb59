"""Checkpoints: moving the write-ahead log into the file before it grows without end.

**Why not leave it to SQLite.** Versions before 3.51.3 have the WAL-reset bug: a checkpoint that starts when the log has
just been moved whole, while another connection commits and begins the log anew, can mark new frames as moved that are
not, and they are lost. One checkpointer is not enough to avoid it; a checkpoint beside a commit is the trouble.

**What we do.** Automatic checkpoints are off everywhere. Whoever has committed and finds the log grown makes one, while
it holds the file's write lock (an empty transaction on its writing connection), so no commit can run beside it; a
kernel lock on `<file>-checkpoint` makes the others go on instead of queueing to do the same. That lock is gone with
its process, and no process keeps it while it is idle. The lock file stays: deleting it would race with its next holder.

**How large is the log?** SQLite tells nobody before 3.51. But the log file itself may be read: every frame carries the
salt of the log's header while it belongs to the current round. So "is frame n current?" is two small reads. (Never
open the database or its `-shm` like that: closing any descriptor of them drops this process's locks on them.)
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from laneway.stores.sqlite.connection import Place, connect_to_read

PAGES = 2000  # of the log, after which it is moved

_HEADER = 32
_FRAME_HEADER = 24


class Checkpointer:
    """Keeps the log short, from the writer's thread."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._log = Path(f"{place.path}-wal")
        self._lock_path = Path(f"{place.path}-checkpoint")
        self._file: FileIO | None = None
        self._db: sqlite3.Connection | None = None
        self._round = b""
        self._limit = PAGES

    def after_commit(self, writer: sqlite3.Connection) -> None:
        """Move the log if it has grown past its limit and nobody else is at it."""
        if not self._grown():
            return
        with _locked(self._lock_path) as locked:
            if locked:
                self._checkpoint(writer)

    def close(self) -> None:
        """Let go of the log and the connection."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._db is not None:
            self._db.close()
            self._db = None

    def _checkpoint(self, writer: sqlite3.Connection) -> None:
        self._db = self._db or connect_to_read(self._place)
        try:
            # Invariant: no commit of anybody while this runs.
            writer.execute("BEGIN IMMEDIATE")
            _, pages, moved = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.OperationalError:
            return  # locked for long: the next commit asks again
        finally:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        # A long reader can keep part of the log from being moved; do not try again at every commit.
        self._limit = PAGES if moved == pages else pages + PAGES

    def _grown(self) -> bool:
        try:
            file = self._file = self._file or FileIO(self._log)
            file.seek(0)
            header = file.read(_HEADER)
            salt, size = header[16:24], int.from_bytes(header[8:12], "big")
            if salt != self._round:
                self._round, self._limit = salt, PAGES
            file.seek(_HEADER + self._limit * (_FRAME_HEADER + size))
            frame = file.read(16)
        except OSError:
            return False
        return frame[8:16] == salt != b""


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield _try_lock(descriptor)
    finally:
        # Closing unlocks too, unless the process was forked meanwhile and the child has the descriptor as well.
        _unlock(descriptor)
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        with contextlib.suppress(OSError):
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
