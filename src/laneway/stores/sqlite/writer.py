"""The writer: one thread per store object, one transaction per batch of waiting work (group commit).

**The model.** `BEGIN IMMEDIATE` takes the file's write lock (`write_lock`). Each piece of work runs inside the
transaction, behind a savepoint if there are several, so that one that fails is undone alone. One COMMIT makes all of
them durable. Then idle workers are woken and callers are answered.

**Who waits for the disk** (decision 44). A batch of nothing but claims and renewals is committed without an fsync
(`synchronous = NORMAL`): if the machine crashes, so do the workers that were answered. A batch with submissions is
committed like that too. Workers may see and start the runs at once, but the submissions are answered after a sync of
the log. Everything else is committed with an fsync (`FULL`): nobody sees it before it is on the disk. A submission that
turns out to have changed other runs is undone and done again with `FULL`.

**Crash points.** Before the COMMIT nothing happened and nobody was answered. After it everything happened, though
answers and wake-ups may be lost: callers repeat their calls, which then change nothing, and idle workers look once a
second. If the machine crashes before a submission is on the disk, the submission never was, nor anything that followed
from it: SQLite reads its log up to where it breaks off. Nobody has a receipt for it.

**Errors.** If the lock cannot be had in time, nothing was done: all callers get StoreUnavailable. If SQLite gives up in
the middle (disk full, a failing disk), all is rolled back. A COMMIT that fails may have reached the disk: `maybe_done`.
After any of these but a lock the connection is closed; the next batch opens a new one. If the disk did not take what
was committed, nothing is written before the whole log is in the file: what came after a gap in it would be lost.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable

from laneway.errors import StoreError, StoreUnavailable
from laneway.stores.sqlite.checkpoints import Checkpointer
from laneway.stores.sqlite.connection import StoreFile, connect, translated
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.log_sync import CAN_SYNC, WriteAheadLog
from laneway.stores.sqlite.write_lock import WriteLock
from laneway.stores.tables.runtime.after_commit import WakeUp
from laneway.stores.tables.runtime.commit_options import Durability
from laneway.stores.tables.runtime.worker_thread import WorkItem
from laneway.stores.tables.runtime.writer import Writer

_LOOK_AFTER = 64  # transactions, or
_ROWS = 500  # changed rows, after which to look how long the log is
log = logging.getLogger("laneway.sqlite")


class SQLiteWriter(Writer):
    """Does work inside transactions, and keeps the log short."""

    def __init__(
        self,
        file: StoreFile,
        now: Callable[[], int],
        wake: Callable[[list[WakeUp]], None],
        publish: Callable[[], None],
    ) -> None:
        super().__init__("laneway-sqlite-writer", wake, publish)
        self._file, self._now = file, now
        self._db: sqlite3.Connection | None = None
        self._is_full = True  # `synchronous` is FULL
        self._log, self._has_log = WriteAheadLog(file.path), False
        self._has_gap = False  # the disk did not take part of the log
        self._owes_sync = False  # submissions of this batch were committed, and are not on the disk yet
        self._commits, self._rows = 0, 0  # since the last look how long the log is
        self._looked_at: int | None = None  # the version at the last `look`; -1: a wake-up may have been missed
        self._write_lock = WriteLock(file)
        self._checkpointer = Checkpointer(file, self._write_lock)

    def look(self) -> bool:
        """Tell whether anybody else has committed since the last look. From any thread; it never waits.

        What this connection commits does not count: its own wake-ups are sent. While the writer is at work, the answer
        is no, and the next look will tell.
        """
        if not self.busy.acquire(blocking=False):
            return False
        try:
            if self._db is None:
                return True
            version = _data_version(self._db)
        except sqlite3.Error:
            return True
        finally:
            self.busy.release()
        changed, self._looked_at = version != self._looked_at, version
        return changed

    @property
    def has_housekeeping(self) -> bool:
        """Tell whether followers are to be notified, or the log may have grown."""
        return super().has_housekeeping or self._commits >= _LOOK_AFTER or self._rows >= _ROWS

    def housekeeping(self) -> None:
        """Notify followers, and move the log into the file if it has grown."""
        super().housekeeping()
        self._commits = self._rows = 0
        if self._db is not None:
            self._checkpointer.after_commit(self._db)

    def close_connection(self) -> None:
        """Close the file; the last to close it moves the rest of the log into it."""
        self._checkpointer.close()
        self._write_lock.close()
        self._log.close()
        if self._db is not None:
            self._db.close()
            self._db = None

    # One batch

    def process(self, batch: list[WorkItem]) -> None:
        """Do the batch in one transaction, wake workers up, then wait for the disk if a submission needs it."""
        super().process(batch)
        if self._owes_sync:
            self._owes_sync = False
            self._sync(batch)

    def commit(self, batch: list[WorkItem]) -> None:
        """Do the batch in one transaction."""
        try:
            self._transact(batch, full=any(item.options.durability is Durability.AT_COMMIT for item in batch))
        except StoreError:
            raise
        except Exception:
            # A bug: half of a transaction must not be left for the next batch to go on with.
            self._drop_connection()
            raise

    def _transact(self, batch: list[WorkItem], *, full: bool) -> None:
        db = self._db = self._db or self._connect()
        submits = any(item.options.durability is Durability.BEFORE_ANSWER for item in batch)
        full = full or (submits and not self._has_log)
        self._begin(db, full=full)
        before = db.total_changes
        for item in batch:
            self._do(db, item, alone=len(batch) == 1)
        if not full and any(item.after_commit.changed_others for item in batch):
            self._execute(db, "ROLLBACK")
            for item in batch:
                item.reset()
            self._transact(batch, full=True)
        elif db.in_transaction:  # not if its only work has failed
            self._execute(db, "COMMIT", maybe_done=True)
            rows = db.total_changes - before
            # A repeat writes nothing, but the submission that it repeats may wait for the disk in another process.
            self._owes_sync = submits and not (full and rows)
            self._commits, self._rows = self._commits + 1, self._rows + rows

    def _begin(self, db: sqlite3.Connection, *, full: bool) -> None:
        try:
            if self._has_gap:
                self._close_gap(db)
            if full is not self._is_full:
                db.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
                self._is_full = full
            self._write_lock.begin(db)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise translated(error, self._file) from error
            raise self._broken(error) from error

    def _do(self, db: sqlite3.Connection, item: WorkItem, *, alone: bool) -> None:
        """Do one piece of work, and undo it if it fails."""
        try:
            if not alone:
                db.execute("SAVEPOINT piece")
            item.value = item.work(SQLiteDatabase(db, self._now), item.after_commit)
            if not alone:
                db.execute("RELEASE piece")
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not _is_its_own(error):
                raise self._broken(error) from error
            item.reset()
            item.error = error
            for undo in ("ROLLBACK",) if alone else ("ROLLBACK TO piece", "RELEASE piece"):
                self._execute(db, undo)

    def _execute(self, db: sqlite3.Connection, statement: str, *, maybe_done: bool = False) -> None:
        try:
            db.execute(statement)
        except sqlite3.Error as error:
            raise self._broken(error, maybe_done=maybe_done) from error

    # The disk

    def _sync(self, batch: list[WorkItem]) -> None:
        """Wait until the log is on the disk. If it may never get there, the callers are answered with an error."""
        try:
            self._log.sync()
        except OSError:
            log.exception("%s: the disk did not take what was written", self._file.path)
            self._has_gap = True
            self._drop_connection()
            for item in batch:
                if item.error is None and item.options.durability is not Durability.LATER:
                    item.error = self._gap("try again", maybe_done=True)

    def _close_gap(self, db: sqlite3.Connection) -> None:
        """Move the log into the file: then nothing depends on it any more, though the disk may have a gap in it."""
        if not self._checkpointer.move_all(db):
            raise self._gap("end long reads: all of it must be in the file before anything is written")
        self._has_gap = False

    def _gap(self, advice: str, *, maybe_done: bool = False) -> StoreUnavailable:
        text = f"{self._file.path}: the disk failed to keep part of its log; look at the disk and the system's log, and"
        return StoreUnavailable(f"{text} {advice}", maybe_done=maybe_done)

    # The connection

    def _connect(self) -> sqlite3.Connection:
        db = connect(self._file)
        db.execute("PRAGMA busy_timeout = 0")  # from here on `WriteLock` does the waiting
        self._is_full = True
        self._has_log = CAN_SYNC and db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        if self._looked_at is None:
            # Nobody can have missed anything before the first connection; a look may find it busy for a long time.
            self._looked_at = _data_version(db)
        return db

    def _broken(self, error: sqlite3.Error, *, maybe_done: bool = False) -> StoreError:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_FSYNC:
            # What was committed before may be lost as well, and a new descriptor is not told so.
            self._has_gap = True
        self._drop_connection()
        return translated(error, self._file, maybe_done=maybe_done)

    def _drop_connection(self) -> None:
        """Close a connection that may be in any state."""
        db, self._db, self._looked_at = self._db, None, -1
        self._checkpointer.close()
        self._log.close()
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):
                db.close()


def _data_version(db: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has committed."""
    [[version]] = db.execute("PRAGMA data_version").fetchall()
    return int(version)


def _is_its_own(error: sqlite3.Error) -> bool:
    # A wrong statement or value is the fault of the work that has it, not of the file.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG}
