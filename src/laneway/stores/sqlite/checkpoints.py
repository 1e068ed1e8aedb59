"""Checkpoints: moving the write-ahead log into the file before it grows without end.

**Why not leave it to SQLite.** Versions before 3.51.3 have the WAL-reset bug. If a checkpoint starts when the log has
just been moved whole, while another connection commits and begins the log anew, it can mark new frames as moved that
are not, and they are lost. One checkpointer is not enough to avoid that: no checkpoint may run beside a commit.

**What we do.** Automatic checkpoints are off everywhere. A writer that has committed and finds the log grown takes the
write lock (`write_lock`) with an empty transaction, and makes the checkpoint on a connection beside it. So no commit,
and no other checkpoint, can run at the same time. No process is *the* checkpointer for as long as it lives: an idle one
would keep the others from it.

**How large is the log?** SQLite has no call for that before 3.51. But the log file itself may be read: every frame
carries the salt of the log's header while it belongs to the current round. So "is frame n current?" is two small reads.
(Never open the database or its `-shm` like that: closing any descriptor of them drops this process's locks on them.)
"""

from __future__ import annotations

import sqlite3
from io import FileIO
from pathlib import Path

from laneway.stores.sqlite.connection import StoreFile, connect_to_read
from laneway.stores.sqlite.write_lock import WriteLock

PAGES = 1000  # of the log, after which it is moved

_HEADER = 32
_FRAME_HEADER = 24


class Checkpointer:
    """Keeps the log short, from the writer's thread."""

    def __init__(self, store_file: StoreFile, write_lock: WriteLock) -> None:
        self._store_file, self._write_lock = store_file, write_lock
        self._log = Path(f"{store_file.path}-wal")
        self._file: FileIO | None = None
        self._db: sqlite3.Connection | None = None
        self._round = b""
        self._limit = PAGES

    def after_commit(self, writer: sqlite3.Connection) -> None:
        """Move the log if it has grown past its limit."""
        if self._grown():
            self._checkpoint(writer)

    def move_all(self, writer: sqlite3.Connection) -> bool:
        """Move the log, however short, and wait for the disk; return whether all of it was moved."""
        return self._checkpoint(writer)

    def close(self) -> None:
        """Close the log and the connection."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._db is not None:
            self._db.close()
            self._db = None

    def _checkpoint(self, writer: sqlite3.Connection) -> bool:
        """Move what can be moved; return whether that was all."""
        self._db = self._db or connect_to_read(self._store_file)
        try:
            # Invariant: no process commits while this runs.
            self._write_lock.begin(writer)
            busy, pages, moved = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.OperationalError:
            return False  # locked for long: the next commit tries again
        finally:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        if busy:
            return False  # another program, as `sqlite3`, is moving the log, and the other two numbers say nothing
        # A long reader can keep part of the log from being moved; do not try again at every commit.
        is_whole: bool = moved == pages
        self._limit = PAGES if is_whole else pages + PAGES
        return is_whole

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
