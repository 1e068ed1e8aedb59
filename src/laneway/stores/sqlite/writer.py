"""The writer: one thread per store object, one transaction per batch of whatever waits (group commit).

**The model.** `BEGIN IMMEDIATE` takes the file's write lock (`write_lock`). Each piece of work runs inside it, behind a
savepoint when there are several, so one that fails is undone alone. One COMMIT, one fsync, makes all of them durable;
only then are they answered, and wake-ups sent. A batch of nothing but claims and renewals is committed without the
fsync: a machine that crashes takes along the worker it was answered to.

**Submissions** are committed without it, too: workers may see and start what was submitted, and only the receipt waits
for the disk (`log_sync`). A short one is written on its caller's loop, if this thread rests and nobody has the lock.
This thread waits for the disk.
What turns out to have changed other runs is undone and done again with the fsync: nobody may see that before.

**Crash points.** Before the COMMIT nothing happened and nobody was answered. After it everything happened, though
answers and wake-ups may be lost: callers repeat their calls, which change nothing then; resting workers look. If the
machine crashes before a submission is on the disk, it never was, nor anything that came of it: the log is read up to
where it breaks off. Nobody has a receipt for it.

**Errors.** No lock in time: nothing was done, all hear StoreUnavailable. SQLite gave up in the middle (disk full, a
failing disk): rolled back, nothing was done. A COMMIT that fails may have reached the disk: `maybe_done`. After
anything but a lock the connection is closed, and the next batch opens a new one. If the disk did not take what was
committed, nothing is written before all of the log is in the file: what came after a gap in it would be lost.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable

from laneway.errors import StoreError, StoreUnavailable
from laneway.stores.sqlite.checkpoints import Checkpointer
from laneway.stores.sqlite.connection import Place, connect, translated
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.log_sync import CAN_SYNC, Log
from laneway.stores.sqlite.write_lock import Turn
from laneway.stores.tables.lending import lend, only_wake
from laneway.stores.tables.runtime.after_commit import Effects, Lender, Woken
from laneway.stores.tables.runtime.step_cache import Memory
from laneway.stores.tables.runtime.worker_thread import Ask
from laneway.stores.tables.runtime.writer import Writer

_LOOK_AFTER = 64  # transactions, or
_ROWS = 500  # changed rows, after which to look how long the log is
_LONG = 0.005  # seconds that work may take on a loop; if it did,
_PAUSE = 1.0  # for so long the thread has it all
log = logging.getLogger("laneway.sqlite")


class NotHereError(Exception):
    """What was begun on a loop has to be done on the thread; nothing of it is written."""


class SQLiteWriter(Writer):
    """Does work inside transactions, and keeps the log short."""

    portable = True  # SQLite's connections may be used by one thread after another

    def __init__(
        self,
        place: Place,
        now: Callable[[], int],
        wake: Callable[[list[Woken]], None],
        tell: Callable[[], None],
        is_there: Callable[[Lender], bool],
    ) -> None:
        super().__init__("laneway-sqlite-writer", wake, tell, is_there)
        self._place, self._now = place, now
        self._db: sqlite3.Connection | None = None
        self._syncs = True  # whether the connection waits for the disk at each commit
        self._log, self._has_log = Log(place.path), False
        self._owes = False  # something was committed whose caller must not hear of it before it is on the disk
        self._broke_off = False  # the disk did not take part of the log
        self._commits, self._rows = 0, 0  # since it was looked how long the log is
        self._patience = 0.0  # until when nothing is done on a loop
        self._seen: int | None = None  # what others have committed up to the last look; -1: something may be missed
        self._memory: Memory | None = None
        self._version = 0  # which others' commits that is true of
        self._turn = Turn(place)
        self._checkpointer = Checkpointer(place, self._turn)

    @property
    def has_chores(self) -> bool:
        """Tell whether the watchers are to be told, or the log may have grown."""
        return super().has_chores or self._commits >= _LOOK_AFTER or self._rows >= _ROWS

    def rest(self) -> None:
        """Tell the watchers, and move the log into the file when it has grown, now that nobody waits for an answer."""
        super().rest()
        self._commits = self._rows = 0
        if self._db is not None:
            self._checkpointer.after_commit(self._db)

    def look(self) -> bool:
        """Tell whether anybody else has committed since this was last asked. From any thread; it never waits.

        What this connection commits does not count: who is to be woken by it is woken. While it is at work it cannot be
        asked, and the next look will tell.
        """
        if not self.busy.acquire(blocking=False):
            return False
        try:
            if self._db is None:
                return True
            [[version]] = self._db.execute("PRAGMA data_version").fetchall()
        except sqlite3.Error:
            return True
        finally:
            self.busy.release()
        changed, self._seen = version != self._seen, version
        return bool(changed)

    def let_go(self) -> None:
        """Close the file; whoever closes it last moves the rest of the log into it."""
        self._checkpointer.close()
        self._turn.close()
        self._log.close()
        # A new connection counts others' commits anew, and may come to the same number.
        self._memory = None
        if self._db is not None:
            self._db.close()
            self._db = None

    def _connect(self) -> sqlite3.Connection:
        db = connect(self._place)
        db.execute("PRAGMA busy_timeout = 0")  # from here on `Turn` does the waiting
        self._syncs = True
        self._has_log = CAN_SYNC and db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        if self._seen is None:
            # Nobody can have missed anything before the first connection; a look may find it busy for a long time.
            [[self._seen]] = db.execute("PRAGMA data_version").fetchall()
        return db

    def begin(self, ask: Ask) -> bool:
        """Commit the work on its caller's loop, if nothing of it has to be waited for."""
        db, began = self._db, time.monotonic()
        if db is None or not self._has_log or self._broke_off or self._checkpointer.moved or began < self._patience:
            return False
        if self._owes:
            return False  # Race: another loop has begun something, and is about to have the thread wait for it
        try:
            if not self._begun_at_once(db) or not self._done_at_once(db, ask):
                return False
        except BaseException:
            # Ctrl-C also comes in between: the next would go on with what was begun, and not wait for the disk.
            self._drop_connection()
            raise
        if (ended := time.monotonic()) - began > _LONG:
            self._patience = ended + _PAUSE  # a busy disk, perhaps: a loop has better things to do than to wait for it
        return True

    def _done_at_once(self, db: sqlite3.Connection, ask: Ask) -> bool:
        """Do the work, and tell whether that can be on a loop; if not, it is undone."""
        try:
            self.do([ask])
        except NotHereError:
            self._take_back(db, [ask])
            return False
        return True

    def transact(self, batch: list[Ask]) -> None:
        """Do the batch in one transaction."""
        try:
            self._transact(batch)
        except (StoreError, NotHereError):
            raise
        except BaseException:
            # Ctrl-C on a loop, or a bug: half of a transaction must not be left for the next to go on with.
            self._drop_connection()
            raise

    def _transact(self, batch: list[Ask], *, waits: bool = False) -> None:
        db = self._db = self._db or self._connect()
        begun = db.in_transaction
        if not begun:
            self._begin(db, batch, waits=waits)
        before = db.total_changes
        memory, self._memory = self._recall(db), None
        for ask in batch:
            memory = self._attempt(db, ask, memory, alone=len(batch) == 1)
        lent = self.known_to(Effects(durable=False, remembers=True))
        done = [ask.note for ask in batch if ask.error is None]
        if any(each.lender for each in done):
            memory = self._lend(db, lent, done, memory)
        if not self._syncs and any(each.on_others for each in (*done, lent)):
            if begun:
                for ask in batch:
                    ask.note.swift = False
                raise NotHereError
            self._take_back(db, batch)
            self._transact(batch, waits=True)
        elif db.in_transaction:
            self._execute(db, "COMMIT", maybe_done=True)
            # Not before: what did not reach the file never was.
            self._memory = memory
            rows = db.total_changes - before
            self._owes = not (self._syncs and rows) and (self._owes or any(each.swift for each in done))
            self._commits, self._rows = self._commits + 1, self._rows + rows
            self._checkpointer.moved = self._checkpointer.moved and not rows
            self.tell_of([lent])

    def _take_back(self, db: sqlite3.Connection, batch: list[Ask]) -> None:
        """Undo all of the batch, which is to be done again."""
        self._execute(db, "ROLLBACK")
        for ask in batch:
            ask.value = ask.error = None
            ask.note.forget()

    def finish(self, batch: list[Ask]) -> None:
        """Wait until what was submitted is on the disk; also if it was only found there, as others may wait for it."""
        if self._owes and not self._broke_off:
            try:
                self._log.sync()
            except OSError as error:
                self._lose(error)
            if self._db is None:
                self._log.close()  # Race: the store was closed since the commit
        self._owes = False
        if self._broke_off:
            # Race: also one that was begun on a loop, while another batch heard of it.
            for ask in batch:
                if ask.error is None and ask.note is not None and ask.note.durable:
                    ask.error = self._gap("try again", maybe_done=True)

    def _lose(self, error: OSError) -> None:
        """Take note that part of the log may never be on the disk."""
        log.error("%s: the disk did not take what was written", self._place.path, exc_info=error)
        self._broke_off = True
        self._drop_connection()

    def _mend(self, db: sqlite3.Connection) -> None:
        """Move the log into the file: so nothing depends on it any more, though the disk may have a gap in it."""
        if not self._checkpointer.move_all(db):
            raise self._gap("end long reads: all of it must be in the file before anything is written")
        self._broke_off = False

    def _gap(self, advice: str, *, maybe_done: bool = False) -> StoreUnavailable:
        text = (
            f"{self._place.path}: the disk failed to keep part of its log; look at the disk and the system's log, and"
        )
        return StoreUnavailable(f"{text} {advice}", maybe_done=maybe_done)

    def _lend(self, db: sqlite3.Connection, lent: Effects, done: list[Effects], memory: Memory | None) -> Memory | None:
        """Do the steps that were lent; if that fails, their workers make them, and hear why."""
        steps = Ask(lambda db: lend(db, lent, done), None, lent)
        memory = self._attempt(db, steps, memory, alone=False)
        if steps.error is not None:
            log.error("a step that was lent could not be done", exc_info=steps.error)
            lent.wake, lent.events = [], False
            only_wake(SQLiteDatabase(db, self._now), lent, done)
        return memory

    def _recall(self, db: sqlite3.Connection) -> Memory | None:
        """Return what still holds of what the last transaction left: all of it, or nothing if others have written."""
        try:
            [[version]] = db.execute("PRAGMA data_version").fetchall()
        except sqlite3.Error as error:
            raise self._broken(error) from error
        if version == self._version:
            return self._memory
        self._version = version
        return None

    def _begin(self, db: sqlite3.Connection, batch: list[Ask], *, waits: bool) -> None:
        durable = [ask for ask in batch if ask.note.durable]
        try:
            if self._broke_off:
                self._mend(db)
            self._wait_at_commit(db, waits or any(not (ask.note.swift and self._has_log) for ask in durable))
            self._turn.begin(db)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise translated(error, self._place) from error
            raise self._broken(error) from error

    def _begun_at_once(self, db: sqlite3.Connection) -> bool:
        try:
            self._wait_at_commit(db, False)
            return self._turn.begin_at_once(db)
        except sqlite3.OperationalError:
            return False

    def _wait_at_commit(self, db: sqlite3.Connection, waits: bool) -> None:
        if waits is not self._syncs:
            db.execute(f"PRAGMA synchronous = {'FULL' if waits else 'NORMAL'}")
            self._syncs = waits

    def _attempt(self, db: sqlite3.Connection, ask: Ask, memory: Memory | None, *, alone: bool) -> Memory | None:
        """Do one piece of work; return what is known after it."""
        effects: Effects = ask.note
        effects.memory = memory if effects.remembers else None
        try:
            if not alone:
                db.execute("SAVEPOINT piece")
            ask.value = ask.work(SQLiteDatabase(db, self._now))
            if not alone:
                db.execute("RELEASE piece")
            known, effects.memory = effects.memory, None
            return known
        except sqlite3.Error as error:
            if not _its_own(error):
                raise self._broken(error) from error
            self._undo(db, ask, error, alone=alone)
        except Exception as error:  # noqa: BLE001 - it goes to its caller
            self._undo(db, ask, error, alone=alone)
        return None

    def _undo(self, db: sqlite3.Connection, ask: Ask, error: Exception, *, alone: bool) -> None:
        ask.error = error
        if alone:
            self._execute(db, "ROLLBACK")
        else:
            self._execute(db, "ROLLBACK TO piece")
            self._execute(db, "RELEASE piece")

    def _execute(self, db: sqlite3.Connection, statement: str, *, maybe_done: bool = False) -> None:
        try:
            db.execute(statement)
        except sqlite3.Error as error:
            raise self._broken(error, maybe_done=maybe_done) from error

    def _broken(self, error: sqlite3.Error, *, maybe_done: bool = False) -> StoreError:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_FSYNC:
            # What was committed before, and waits for the disk, may be lost as well; a new descriptor is not told so.
            self._broke_off = True
        self._drop_connection()
        return translated(error, self._place, maybe_done=maybe_done)

    def _drop_connection(self) -> None:
        db, self._db, self._seen, self._memory = self._db, None, -1, None
        self._checkpointer.close()
        self._log.close()
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):
                db.close()


def _its_own(error: sqlite3.Error) -> bool:
    # A wrong statement or value is the fault of the work that has it, not of the file.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG}
