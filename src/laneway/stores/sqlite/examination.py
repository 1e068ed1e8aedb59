"""Examines a file from outside: nothing is changed, and a damaged file is reported, not refused.

It reads on a connection of its own and needs none of the store's threads. What a damaged page makes unreadable is left
out and listed as damage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from laneway.errors import StoreError
from laneway.ports.upkeep import Examination
from laneway.stores.sqlite.connection import StoreFile, connect_to_look, layout_of, newest_layout, translated
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.tables.reads import runs
from laneway.stores.tables.upkeep import check

_ENGINE = f"SQLite {sqlite3.sqlite_version}"
T = TypeVar("T")


def examine(file: StoreFile, *, deep: bool) -> Examination:
    """Return the state of the file; see `UpkeepStore.examine`."""
    try:
        with closing(connect_to_look(file)) as db:
            layout = layout_of(db, file)
            db.execute("BEGIN")
            return _examined(db, file, layout, deep=deep)
    except (sqlite3.Error, StoreError) as error:
        cause = error if isinstance(error, sqlite3.Error) else error.__cause__
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:
            # Not even the list of tables can be read.
            return Examination(engine=_ENGINE, layout=0, newest_layout=newest_layout(), damage=[str(cause)])
        if isinstance(error, sqlite3.Error):
            raise translated(error, file) from error
        raise


def _examined(db: sqlite3.Connection, file: StoreFile, layout: int, *, deep: bool) -> Examination:
    current = layout == newest_layout()
    readable = _ReadableParts(SQLiteDatabase(db, lambda: 0))
    damage: list[str] = readable.of(_damage, []) if deep else []
    return Examination(
        engine=_ENGINE,
        layout=layout,
        newest_layout=newest_layout(),
        sizes=_sizes(db, file.path),
        # An older layout may lack tables that these read.
        findings=readable.of(check.look, None) if current and deep else None,
        runs=readable.of(runs.count, None) if current else None,
        workers=readable.of(runs.workers, None) if current else None,
        newest_at=readable.of(_newest, None) if current else None,
        set_back=readable.of(_set_back, None) if current else None,
        damage=damage + readable.errors,
    )


class _ReadableParts:
    """Answers questions as far as the file can be read; `errors` are what SQLite reported."""

    def __init__(self, db: SQLiteDatabase) -> None:
        self._db = db
        self.errors: list[str] = []

    def of(self, question: Callable[[SQLiteDatabase], T], otherwise: T) -> T:
        """Return the answer, or `otherwise` if a page that it needs is damaged."""
        try:
            return question(self._db)
        except sqlite3.DatabaseError as error:
            if str(error) not in self.errors:
                self.errors.append(str(error))
            return otherwise


def _damage(db: SQLiteDatabase) -> list[str]:
    return [text for (text,) in db.raw.execute("PRAGMA integrity_check(20)") if text != "ok"]


def _sizes(db: sqlite3.Connection, path: Path) -> dict[str, int]:
    [[page], [free]] = [db.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "freelist_count")]
    log = Path(f"{path}-wal")
    return {
        "file": path.stat().st_size,
        "unused": page * free,
        "log": log.stat().st_size if log.exists() else 0,
    }


def _newest(db: SQLiteDatabase) -> int | None:
    return max((at for (at,) in db.execute("examination.newest") if at), default=None)


def _set_back(db: SQLiteDatabase) -> int:
    [[most]] = db.execute("examination.set_back")
    return max(0, most or 0)
