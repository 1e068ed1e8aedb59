"""Opens, creates and migrates the file, and translates SQLite's errors for an operator.

**Order.** Nothing is changed before the file is known to be a store or empty. A database of another program, or of a
newer laneway, is refused and left as it was. The file is created and migrated under the write lock, after a second
check, because another process may have done it in between.

`application_id` marks the file as a store, `user_version` is the number of the last migration in `schema/`.
"""

from __future__ import annotations

import re
import sqlite3
import time
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from laneway.core.records.policy import DEFAULT_LANES
from laneway.errors import NotAStore, StoreError, StoreTooNew, StoreUnavailable
from laneway.stores.sqlite.database import TEXTS

APPLICATION_ID = 0x4C4E5759  # "LNWY"
_NAP = 0.002  # seconds between two tries to get a lock


class StoreFile(NamedTuple):
    """The path of the file, and how many seconds to wait for another program's lock."""

    path: Path
    busy_timeout: float


def connect(file: StoreFile) -> sqlite3.Connection:
    """Open the file to write; create or migrate it if needed. Raises StoreError, with nothing changed."""
    _refuse_bad_path(file.path)
    db = None
    try:
        db = _tuned(file)
        _refuse_foreign(db, file.path)
        _use_write_ahead_log(db, file.busy_timeout)
        _migrate(db, file.path)
        return db
    except sqlite3.Error as error:
        _close(db)
        raise translated(error, file) from error
    except StoreError:
        _close(db)
        raise


def connect_to_read(file: StoreFile) -> sqlite3.Connection:
    """Open an existing file to read."""
    try:
        db = _tuned(file)
        db.execute("PRAGMA query_only = ON")
        return db
    except sqlite3.Error as error:
        raise translated(error, file) from error


def connect_to_look(file: StoreFile) -> sqlite3.Connection:
    """Open an existing file of any layout to examine it. Nothing is changed. Raises StoreError."""
    _refuse_bad_path(file.path)
    if not file.path.exists():
        raise StoreUnavailable(f"there is no file {file.path}")
    return connect_to_read(file)


def layout_of(db: sqlite3.Connection, file: StoreFile) -> int:
    """Return the number of the file's layout. Raises NotAStore, also if the file is empty, and StoreTooNew."""
    _refuse_foreign(db, file.path)
    if layout := _pragma(db, "user_version"):
        return layout
    raise NotAStore(f"{file.path} is empty; a store is made when a scheduler first uses it")


def newest_layout() -> int:
    """Return the number of the layout that this laneway uses."""
    return max(_migrations())


def translated(error: sqlite3.Error, file: StoreFile, *, maybe_done: bool = False) -> StoreError:
    """Return a StoreError for SQLite's error: what is wrong with which file, and what to do about it."""
    path, code = file.path, getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_NOTADB:
        return NotAStore(f"{path} is not a SQLite database; give another path, or move that file away")
    known = _ADVICE.get(code) or _ADVICE.get(code & 0xFF, "{error}")
    advice = known.format(error=error, seconds=f"{file.busy_timeout:g}", folder=path.parent)
    return StoreUnavailable(f"{path}: {advice}", maybe_done=maybe_done)


_ADVICE = {
    sqlite3.SQLITE_BUSY: "another program has kept it locked for {seconds} s; find out which (`fuser`), or try again",
    sqlite3.SQLITE_LOCKED: "another program has kept it locked for {seconds} s; find out which (`fuser`), or try again",
    sqlite3.SQLITE_FULL: "the disk is full; free some space on it",
    sqlite3.SQLITE_READONLY: "it cannot be written; give this user the right to write it and its folder {folder}",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; give this user the right to write it and its folder {folder}",
    sqlite3.SQLITE_PERM: "it cannot be opened; give this user the right to write it and its folder {folder}",
    sqlite3.SQLITE_IOERR_WRITE: "it cannot be written ({error}): the disk is full or failing, or the file would become"
    " larger than this process may make one (`ulimit -f`); make room",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write it ({error}); look at the disk and the system's log",
    sqlite3.SQLITE_CORRUPT: "the file is damaged ({error}); stop all workers and restore it from a backup",
}


def _refuse_bad_path(path: Path) -> None:
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a folder; give the path of a file in it, such as {path / 'laneway.db'}")
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{path} cannot be created: there is no folder {path.parent}; create it first")


def _tuned(file: StoreFile) -> sqlite3.Connection:
    # Each thread uses its own connection by design. Only `look` comes from any thread, and it takes a lock.
    db = sqlite3.connect(
        file.path,
        timeout=file.busy_timeout,
        isolation_level=None,
        cached_statements=512,
        check_same_thread=False,
    )
    for setting in (
        "synchronous = FULL",
        # SQLite would make automatic checkpoints on any connection that commits; see `checkpoints`.
        "wal_autocheckpoint = 0",
        "secure_delete = OFF",
        "cache_size = -16384",
        "temp_store = MEMORY",
        "foreign_keys = OFF",
    ):
        db.execute(f"PRAGMA {setting}")
    return db


def _refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    ours, version = _pragma(db, "application_id"), _pragma(db, "user_version")
    if ours == APPLICATION_ID:
        if version > newest_layout():
            raise StoreTooNew(
                f"{path} has layout {version}, made by a newer laneway;"
                f" this one knows up to {newest_layout()}: upgrade it"
            )
    elif ours or version or db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        raise NotAStore(f"{path} is a database of another program; give another path")


def _use_write_ahead_log(db: sqlite3.Connection, busy_timeout: float) -> None:
    """Make sure that the file has a write-ahead log. Only the first process that opens the file changes it.

    Race: another process may be making the change. SQLite does not wait for the lock that it needs (it would hold
    another one meanwhile), so this function polls.
    """
    end = time.monotonic() + busy_timeout
    while db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return  # also without a log: some file systems do not support it
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_NAP)


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    if _pragma(db, "user_version") == newest_layout():
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Race: another process may have migrated before we got the lock, even to a newer layout.
        _refuse_foreign(db, path)
        done = _pragma(db, "user_version")
        for version in sorted(number for number in _migrations() if number > done):
            _apply(db, version)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _apply(db: sqlite3.Connection, version: int) -> None:
    # Crash here: nothing happens. The whole migration is one transaction, version number included.
    statement = ""
    for line in _migrations()[version].splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""
    lanes = [(lane.name, lane.limit, lane.per_user) for lane in DEFAULT_LANES]
    if version == 1:
        db.executemany(TEXTS["settings.create_lane"], lanes)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {version}")


@cache
def _migrations() -> dict[int, str]:
    names = [
        file for file in files(__package__).joinpath("schema").iterdir() if re.match(r"\d{4}_\w+\.sql$", file.name)
    ]
    return {int(file.name[:4]): file.read_text(encoding="utf-8") for file in names}


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _close(db: sqlite3.Connection | None) -> None:
    if db is not None:
        db.close()
