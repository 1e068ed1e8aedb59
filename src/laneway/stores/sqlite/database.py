"""A SQLite connection as the verbs use it, and how many rows are inserted quickly.

Python's sqlite3 prepares a statement once and keeps it in a cache, by its text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from laneway.stores.tables.sql.database import DuplicateError, Query
from laneway.stores.tables.sql.statements import Row, texts

TEXTS = texts(__package__, lambda _, __: "?")

# Rows per statement, largest first: few statements to prepare, and few calls for any number of rows.
_SIZES = (256, 128, 64, 32, 16, 8, 4, 2, 1)
_GROUP = re.compile(r"VALUES\s*(\([^()]*\))")


class SQLiteDatabase:
    """Implements `Database` over a connection."""

    __slots__ = ("now", "raw")
    ahead = 0

    def __init__(self, raw: sqlite3.Connection, now: Callable[[], int]) -> None:
        self.raw, self.now = raw, now

    def execute(self, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """Execute a statement."""
        return self.raw.execute(TEXTS[name], values)

    def page(self, name: str, values: Row, count: int) -> tuple[list[Any], bool]:
        """Execute a statement that reads up to `count` rows."""
        rows = self.raw.execute(TEXTS[name], (*values, count)).fetchall()
        return rows, len(rows) == count

    def expect(self, *questions: Query) -> None:
        """Do nothing: there is no round trip to save."""

    def each(self, name: str, rows: Sequence[Row]) -> None:
        """Execute the statement for each row."""
        if rows:
            self.raw.executemany(TEXTS[name], rows)

    def insert(self, name: str, rows: Sequence[Row], known: Sequence[Row] = ()) -> None:
        """Insert rows by a statement with one `VALUES (...)`; the statement replaces rows that exist.

        Many rows go into one statement. That takes a third of the time of `executemany`, which starts the statement
        anew for each row, and releases Python's lock once instead of once per row.
        """
        rows = [*rows, *known] if known else rows
        left = len(rows)
        if left == 1:
            self.raw.execute(TEXTS[name], rows[0])
        elif left:
            for size in _SIZES:
                while left >= size:
                    first = len(rows) - left
                    self.raw.execute(_repeated(name, size), list(chain.from_iterable(rows[first : first + size])))
                    left -= size

    def insert_new(self, name: str, rows: Sequence[Row]) -> None:
        """Insert runs. The unique index finds ids that exist, at no extra cost."""
        try:
            self.insert(name, rows)
        except sqlite3.IntegrityError as error:
            if _is_known(error):
                raise DuplicateError from error
            raise

    def insert_uniform(
        self, name: str, first: int, rank: int, shared: Row, ids: Sequence[str], args: Sequence[str]
    ) -> None:
        """Insert runs by a statement whose `VALUES` has the fields {nth}, {id} and {args}."""
        own = list(chain.from_iterable(zip(ids, args, strict=True)))
        done, count = 0, len(ids)
        try:
            for size in _SIZES:
                while count - done >= size:
                    values = (first + done, rank + done, *shared, *own[2 * done : 2 * (done + size)])
                    self.raw.execute(_counted(name, size, len(shared)), values)
                    done += size
        except sqlite3.IntegrityError as error:
            if _is_known(error):
                raise DuplicateError from error
            raise


def _is_known(error: sqlite3.IntegrityError) -> bool:
    return error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE


@cache
def _repeated(name: str, count: int) -> str:
    return _GROUP.sub(lambda group: "VALUES " + ",".join([group[1]] * count), TEXTS[name])


@cache
def _counted(name: str, count: int, shared: int) -> str:
    statement = TEXTS[name]
    [group] = _GROUP.findall(statement)
    first = shared + 3
    rows = [group.format(nth=nth, id=first + 2 * nth, args=first + 2 * nth + 1) for nth in range(count)]
    return _GROUP.sub(lambda _: "VALUES " + ",".join(rows), statement)
