"""Examining a file from outside: nothing is changed, and a damaged file is told about, not refused.

It reads on a connection of its own, and needs none of the store's threads. Whatever a damaged page keeps
from being read is left out and named among the damage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from laneway.errors import StoreError
from laneway.ports.upkeep import Examination
from laneway.stores.sqlite.connection import Place, connect_to_look, layout_of, newest_layout, translated
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.tables.reads import runs
from laneway.stores.tables.upkeep import check

_ENGINE = f"SQLite {sqlite3.sqlite_version}"
T = TypeVar("T")


def examine(place: Place, *, deep: bool) -> Examination:
    """Return how the file fares; see `UpkeepStore.examine`."""
    try:
        with closing(connect_to_look(place)) as db:
            layout = layout_of(db, place)
            db.execute("BEGIN")
            return _examined(db, place, layout, deep=deep)
    except (sqlite3.Error, StoreError) as error:
        cause = error if isinstance(error, sqlite3.Error) else error.__cause__
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:
            # Not even its tables can be told.
            return Examination(engine=_ENGINE, layout=0, newest_layout=newest_layout(), damage=[str(cause)])
        if isinstance(error, sqlite3.Error):
            raise translated(error, place) from error
        raise


def _examined(db: sqlite3.Connection, place: Place, layout: int, *, deep: bool) -> Examination:
    current = layout == newest_layout()
    sight = _Sight(SQLiteDatabase(db, lambda: 0))
    damage: list[str] = sight.of(_damage, []) if deep else []
    return Examination(
        engine=_ENGINE,
        layout=layout,
        newest_layout=newest_layout(),
        sizes=_sizes(db, place.path),
        # An older layout may lack what these ask for; it is migrated first.
        findings=sight.of(check.look, None) if current and deep else None,
        runs=sight.of(runs.count, None) if current else None,
        workers=sight.of(runs.workers, None) if current else None,
        newest_at=sight.of(_newest, None) if current else None,
        set_back=sight.of(_set_back, None) if current else None,
        damage=damage + sight.trouble,
    )


class _Sight:
    """Answers questions as far as the file can be read; `trouble` is what kept it from more."""

    def __init__(self, db: SQLiteDatabase) -> None:
        self._db = db
        self.trouble: list[str] = []

    def of(self, question: Callable[[SQLiteDatabase], T], otherwise: T) -> T:
        """Return the answer, or `otherwise` if what it needs is damaged."""
        try:
            return question(self._db)
        except sqlite3.DatabaseError as error:
            if str(error) not in self.trouble:
                self.trouble.append(str(error))
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
