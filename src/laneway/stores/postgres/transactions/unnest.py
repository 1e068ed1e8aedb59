"""Statements for many rows: one text, and one plan, for any number of rows.

Every `$n::type` of a statement for one row becomes a column of `unnest`, whose parameter is an array of that type.

**Finding each row by its key.** A server that analyzed a table while it was empty prefers one scan of the whole table
to many index lookups, and keeps that plan after the table has grown. So an update or delete finds its row (`ctid`) in a
subquery that cannot be reordered (OFFSET 0), and a LIMIT that is unknown at planning time, and is NULL, makes the
planner expect few rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from laneway.stores.postgres.server.arrays import ARRAYS
from laneway.stores.tables.sql.statements import Row

_VALUES = re.compile(r"VALUES\s*\(([^()]*)\)")
_TYPED = re.compile(r"\$(\d+)::(\w+)")
_DELETES = re.compile(r"DELETE FROM (\w+) WHERE (.*)", re.DOTALL)


class ManyRows(NamedTuple):
    """A statement for many rows, and its values: an array per column."""

    query: str
    values: list[bytes | None]


def for_rows(query: str, rows: Sequence[Row]) -> ManyRows:
    """Return the statement that does for all rows what `query` does for one.

    >>> for_rows("INSERT INTO t VALUES ($1::int, $2::text)", [(1, "x"), (2, "y")]).query
    'INSERT INTO t SELECT c1, c2 FROM unnest($1::int[], $2::text[]) AS given(c1, c2)'
    """
    columns = zip(*rows, strict=True)
    arrays: list[bytes | None] = [ARRAYS[kind](column) for kind, column in zip(_kinds(query), columns, strict=True)]
    return ManyRows(unnested(query), arrays if query.startswith("INSERT") else [*arrays, None])


@cache
def unnested(query: str) -> str:
    """Return the text of a statement for one row as one for any number of rows."""
    kinds = _kinds(query)
    arrays = ", ".join(f"${nth}::{kind}[]" for nth, kind in enumerate(kinds, 1))
    columns = ", ".join(f"c{nth}" for nth in range(1, len(kinds) + 1))
    given = f"unnest({arrays}) AS given({columns})"
    no_limit = f"LIMIT ${len(kinds) + 1}::bigint"
    # Only laneway's own texts are combined here.
    if deletes := _DELETES.fullmatch(query):
        table, where = deletes.groups()
        where = _TYPED.sub(r"given.c\1", where)
        found = f"SELECT {table}.ctid AS place FROM {table} WHERE {where} OFFSET 0"  # noqa: S608
        rows = f"(SELECT * FROM {given} {no_limit}) AS given CROSS JOIN LATERAL ({found}) AS found"  # noqa: S608
        return f"DELETE FROM {table} USING {rows} WHERE {table}.ctid = found.place"  # noqa: S608
    [group] = _VALUES.findall(query)
    values = _TYPED.sub(r"c\1", group)
    rows = f"SELECT {values} FROM {given}"  # noqa: S608
    return _VALUES.sub(lambda _: rows if query.startswith("INSERT") else f"{rows} {no_limit}", query)


@cache
def _kinds(query: str) -> tuple[str, ...]:
    """Return the types of a statement's values, in order."""
    [text] = [query] if query.startswith("DELETE") else _VALUES.findall(query)
    return tuple(kind for _, kind in sorted(set(_TYPED.findall(text)), key=lambda typed: int(typed[0])))
