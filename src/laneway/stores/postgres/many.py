"""Statements for many rows: one text, and one plan, for any number of them.

Every `$n::type` of a statement for one row becomes a column of `unnest`, which is given an array. The server copies
each array into a store of its own and reads the rows from all of them: a good part of what a short row takes. So a
column that has one value all the way down, as most have, is given as that value. Which ones have it differs from batch
to batch, and each such *shape* is a text to be prepared: of a statement there are few, and what fits none of them
exactly goes by the one that spares most.

**Looking for each row by its key.** A server that believes a table to be empty, because it was when it was last looked
at, would rather read it from end to end once than look for ten rows in it, and stay with that when it has grown. So
what deletes or updates says where a row is found (`ctid`) by a subquery that cannot be turned around (OFFSET 0), and a
LIMIT that is not known when it is planned, and is none, lets it expect one row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from laneway.stores.postgres.arrays import ARRAYS
from laneway.stores.tables.statements import Row

MOST = 8  # shapes of a statement
ENOUGH = 16  # rows that make a shape of their own worth while: a few are alike by chance
_VALUES = re.compile(r"VALUES\s*\(([^()]*)\)")
_TYPED = re.compile(r"\$(\d+)::(\w+)")
_DELETES = re.compile(r"DELETE FROM (\w+) WHERE (.*)", re.DOTALL)


class Many(NamedTuple):
    """A statement for many rows as the server takes it, and its values."""

    query: str
    values: list[Any]


def for_many(query: str, rows: Sequence[Row]) -> Many:
    """Return a statement that says so of one row, for all of these.

    >>> many = for_many("INSERT INTO t VALUES ($1::int, $2::text)", [(n, "x") for n in range(ENOUGH)])
    >>> many.query, many.values[1]
    ('INSERT INTO t SELECT c1, $2::text FROM unnest($1::int[]) AS given(c1)', 'x')
    """
    columns, kinds = list(zip(*rows, strict=True)), _kinds(query)
    shape = _shape(query, _alike(columns), len(rows))
    values = [
        column[0] if shape >> nth & 1 else ARRAYS[kind](column)
        for nth, (kind, column) in enumerate(zip(kinds, columns, strict=True))
    ]
    return Many(_text(query, shape), values if query.startswith("INSERT") else [*values, None])


def _alike(columns: Sequence[Row]) -> int:
    """Return which columns have one value all the way down: a bit for each."""
    alike = 0
    for nth, column in enumerate(columns):
        first = column[0]
        if column[-1] == first and column.count(first) == len(column):
            alike |= 1 << nth
    return alike


def _shape(query: str, alike: int, count: int) -> int:
    """Return which columns to give as one value, of those that are `alike`."""
    known = _shapes(query)
    if alike in known:
        return alike
    if count >= ENOUGH and len(known) < MOST and alike != (1 << len(_kinds(query))) - 1:  # one column tells how many
        known.append(alike)
        return alike
    return max((shape for shape in known if not shape & ~alike), key=int.bit_count)


@cache
def _shapes(query: str) -> list[int]:
    """Return the shapes that were used; the first, of arrays alone, does for everything."""
    return [0]


@cache
def _kinds(query: str) -> tuple[str, ...]:
    """Return the types of a statement's values, in order."""
    [text] = [query] if query.startswith("DELETE") else _VALUES.findall(query)
    return tuple(kind for _, kind in sorted(set(_TYPED.findall(text)), key=lambda typed: int(typed[0])))


@cache
def _text(query: str, shape: int) -> str:
    kinds = _kinds(query)
    own = [nth for nth in range(len(kinds)) if not shape >> nth & 1]
    columns = ", ".join(f"${nth + 1}::{kinds[nth]}[]" for nth in own)
    given = f"unnest({columns}) AS given({', '.join(f'c{nth + 1}' for nth in own)})"

    def named(prefix: str, text: str) -> str:
        return _TYPED.sub(lambda found: f"{prefix}c{found[1]}" if int(found[1]) - 1 in own else found[0], text)

    none = f"LIMIT ${len(kinds) + 1}::bigint"
    # What is put into these is made of our own texts.
    if deletes := _DELETES.fullmatch(query):
        table, where = deletes.groups()
        found = f"SELECT {table}.ctid AS place FROM {table} WHERE {named('given.', where)} OFFSET 0"  # noqa: S608
        rows = f"(SELECT * FROM {given} {none}) AS given CROSS JOIN LATERAL ({found}) AS found"  # noqa: S608
        return f"DELETE FROM {table} USING {rows} WHERE {table}.ctid = found.place"  # noqa: S608
    [group] = _VALUES.findall(query)
    rows = f"SELECT {named('', group)} FROM {given}"  # noqa: S608
    return _VALUES.sub(lambda _: rows if query.startswith("INSERT") else f"{rows} {none}", query)
