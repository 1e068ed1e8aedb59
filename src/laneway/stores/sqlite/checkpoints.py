"""Checkpoints: moving the write-ahead log into the file before it grows without end.

**Why not leave it to SQLite.** Versions before 3.51.3 have the WAL-reset bug: a checkpoint that starts when the log has
just been moved whole, while another connection commits and begins the log anew, can mark new frames as moved that are
not, and they are lost. One checkpointer is not enough to avoid it; a checkpoint beside a commit is the trouble.

**What we do.** Automatic checkpoints are off everywhere. Whoever has committed and finds the log grown takes its
turn at the kernel lock (`write_lock`), takes the write lock with an empty transaction, and makes the checkpoint on a
connection beside it: so no commit, and no other checkpoint, can run at the same time. No process is *the* checkpointer
for as long as it lives: an idle one would keep the others from it.

**How large is the log?** SQLite tells nobody before 3.51. But the log file itself may be read: every frame carries the
salt of the log's header while it belongs to the current round. So "is frame n current?" is two small reads. (Never
open the database or its `-shm` like that: closing any descriptor of them drops this process's locks on them.)
"""

from __future__ import annotations

import sqlite3
from io import FileIO
from pathlib import Path

from laneway.stores.sqlite.connection import Place, connect_to_read
from laneway.stores.sqlite.write_lock import Turn

PAGES = 1000  # of the log, after which it is moved

_HEADER = 32
_FRAME_HEADER = 24


class Checkpointer:
    """Keeps the log short, from the writer's thread."""

    def __init__(self, place: Place, turn: Turn) -> None:
        self._place, self._turn = place, turn
        self._log = Path(f"{place.path}-wal")
        self._file: FileIO | None = None
        self._db: sqlite3.Connection | None = None
        self._round = b""
        self._limit = PAGES
        self.moved = False  # the log was moved whole: the next commit begins it anew, and waits for the disk

    def after_commit(self, writer: sqlite3.Connection) -> None:
        """Move the log if it has grown past its limit."""
        if self._grown():
            self._checkpoint(writer)

    def move_all(self, writer: sqlite3.Connection) -> bool:
        """Move the log, however short, and wait for the disk; tell whether all of it was moved."""
        self._checkpoint(writer)
        return self.moved

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
        self.moved = False
        try:
            # Invariant: no commit of anybody while this runs.
            self._turn.begin(writer)
            busy, pages, moved = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.OperationalError:
            return  # locked for long: the next commit asks again
        finally:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        if busy:
            return  # another program, as `sqlite3`, is moving it, and the rest of the answer says nothing
        # A long reader can keep part of the log from being moved; do not try again at every commit.
        self.moved = moved == pages
        self._limit = PAGES if self.moved else pages + PAGES

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
