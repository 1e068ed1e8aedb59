"""Named SQL statements, and the one way to insert many rows quickly.

Every statement stands in a file of `sql/` under a line `-- name: ...`, with a sentence about it and the index it relies
on. Python's sqlite3 prepares a text once and finds it again in its cache by that text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any

import msgspec

Row = tuple[Any, ...]

# Rows per statement, largest first: few texts to prepare, and few calls for any number of rows.
_SIZES = (256, 128, 64, 32, 16, 8, 4, 2, 1)
_GROUP = re.compile(r"VALUES\s*(\([^()]*\))")


@cache
def load(name: str) -> dict[str, str]:
    """Return the statements of `sql/<name>.sql` by their names."""
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {title: _bare(body) for title, body in zip(parts[::2], parts[1::2], strict=True)}


def insert(db: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> None:
    """Insert rows by a statement with one `VALUES (...)`.

    Many rows go into one statement: that takes a third of the time of `executemany`, which starts the statement anew
    for each row, and gives up Python's lock once instead of once per row.
    """
    left = len(rows)
    if left == 1:
        db.execute(statement, rows[0])
    elif left:
        for size in _SIZES:
            while left >= size:
                first = len(rows) - left
                db.execute(_repeated(statement, size), list(chain.from_iterable(rows[first : first + size])))
                left -= size


def insert_alike(
    db: sqlite3.Connection, statement: str, count: int, first: int, rank: int, shared: Row, own: Sequence[str] = ()
) -> None:
    """Insert rows that share most of their values, by a statement whose `VALUES` speaks of {nth}, {id} and {args}.

    Numbers and ranks are counted up from the first row's; only what is a row's `own`, its id and arguments, if it has
    any, is bound for each.
    """
    done = 0
    for size in _SIZES:
        while count - done >= size:
            values = (first + done, rank + done, *shared, *own[2 * done : 2 * (done + size)])
            db.execute(_counted(statement, size, len(shared)), values)
            done += size


def each(db: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> None:
    """Do the statement for each row."""
    if rows:
        db.executemany(statement, rows)


def as_json(values: Iterable[str | int | Row]) -> str:
    """Return values as a JSON array, the form in which a statement takes any number of them (`json_each`)."""
    return msgspec.json.encode(list(values)).decode()


@cache
def _repeated(statement: str, count: int) -> str:
    return _GROUP.sub(lambda group: "VALUES " + ",".join([group[1]] * count), statement)


@cache
def _counted(statement: str, count: int, shared: int) -> str:
    [group] = _GROUP.findall(statement)
    first = shared + 3
    rows = [group.format(nth=nth, id=first + 2 * nth, args=first + 2 * nth + 1) for nth in range(count)]
    return _GROUP.sub(lambda _: "VALUES " + ",".join(rows), statement)


def _bare(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
