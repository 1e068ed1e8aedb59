"""Backs up a file that is in use.

SQLite's own backup copies one snapshot in one step, however much is written meanwhile. It blocks no reader and no
writer; only the log cannot be moved until it is done. A copy of the file by other means is no backup: it lacks the log,
and may have pages of different instants.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from laneway.errors import StoreUnavailable
from laneway.stores.sqlite.connection import StoreFile, connect_to_look, layout_of, translated

WAIT = 5.0  # seconds, for a lock


def back_up(path: Path, target: Path) -> int:
    """Copy the store at `path` to a new file; return its size in bytes.

    Raises FileExistsError, and StoreError if the store cannot be read or the copy cannot be written; then no file is
    left. The copy is checked before it gets its name.
    """
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    _reserve(target)
    try:
        _copy(StoreFile(path, WAIT), StoreFile(partial, WAIT))
        shutil.copymode(path, partial)
        # Crash here, or before: an empty file of that name is left, which is no store.
        partial.replace(target)
    except BaseException:
        for file in (target, partial, *_beside(partial)):
            file.unlink(missing_ok=True)
        raise
    _sync(target.parent)
    return target.stat().st_size


def _reserve(target: Path) -> None:
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise
    except OSError as error:
        raise StoreUnavailable(f"{target} cannot be written: {error.strerror}; give another path") from error


def _copy(source: StoreFile, target: StoreFile) -> None:
    with contextlib.ExitStack() as stack:
        try:
            theirs = stack.enter_context(closing(connect_to_look(source)))
            layout_of(theirs, source)
        except sqlite3.Error as error:
            raise translated(error, source) from error
        try:
            ours = stack.enter_context(closing(sqlite3.connect(target.path, isolation_level=None)))
            ours.execute("PRAGMA synchronous = FULL")
            theirs.backup(ours)
            # A file without a log beside it can be moved and read anywhere. The first process to use it begins a log.
            ours.execute("PRAGMA journal_mode = DELETE")
            _refuse_damaged(ours, source)
        except sqlite3.Error as error:
            raise translated(error, source if _is_damage(error) else target) from error


def _refuse_damaged(copy: sqlite3.Connection, source: StoreFile) -> None:
    [first, *_] = [text for (text,) in copy.execute("PRAGMA quick_check(1)")]
    if first != "ok":
        raise StoreUnavailable(
            f"{source.path} is damaged ({first}), and so would be its backup; `laneway doctor` tells more"
        )


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal")]


def _sync(folder: Path) -> None:
    # The new name must survive a power cut, too.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
