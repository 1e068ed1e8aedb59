"""A PostgreSQL connection inside a transaction, as the verbs see it.

**Round trips.** What only writes is sent and not waited for, so a verb waits as often as it reads. Texts use `$1`, or
`:name` where a mapping is given.

**Many rows.** A statement that says `VALUES ($1::type, ...)` is done for many rows at once by `unnest` of one array per
column: one text, and one plan, for any number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from laneway.stores.postgres.pipe import Found, Pipe
from laneway.stores.postgres.session import WHOLE
from laneway.stores.tables.database import DuplicateError
from laneway.stores.tables.statements import Row, texts

_NAMED = re.compile(r"(?<!:):([a-z_]+)")
_VALUES = re.compile(r"VALUES\s*\(([^()]*)\)")
_TYPED = re.compile(r"\$(\d+)::(\w+)")


class Text(NamedTuple):
    """A statement as the server takes it, and the names of its values if it has any."""

    query: str
    names: tuple[str, ...]
    reads: bool  # and writes nothing


def _numbered(text: str) -> Text:
    names = tuple(dict.fromkeys(_NAMED.findall(text)))
    query = _NAMED.sub(lambda name: f"${names.index(name[1]) + 1}", text)
    return Text(query, names, query.startswith(("SELECT", "WITH")))


TEXTS = {name: _numbered(text) for name, text in texts(__package__).items()}


class PostgresDatabase:
    """Fulfils `Database` over a connection that is in a transaction."""

    __slots__ = ("_expected", "_whole", "now", "pipe")
    ahead = 2

    def __init__(self, pipe: Pipe, now: Callable[[], int]) -> None:
        self.pipe, self.now = pipe, now
        self._expected: dict[tuple[str, Row], Found] = {}  # what was asked ahead, until anything is written
        self._whole = False  # it was said that whole tables are read

    def execute(self, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Found:
        """Do a statement."""
        if not self._whole and name.startswith("checking."):
            self._whole = True
            self.pipe.send(WHOLE)
        text = TEXTS[name]
        if isinstance(values, Mapping):
            values = [values[name] for name in text.names]
        elif self._expected and (found := self._expected.pop((name, tuple(values)), None)) is not None:
            return found
        if not text.reads:
            self._expected.clear()
        return self.pipe.send(text.query, values)

    def expect(self, *questions: tuple[str, Row]) -> None:
        """Send these at once, in one journey."""
        for name, values in questions:
            self._expected[name, values] = self.pipe.send(TEXTS[name].query, values)

    def each(self, name: str, rows: Sequence[Row]) -> None:
        """Do the statement for each row; one that deletes is done for all of them at once."""
        self._expected.clear()
        query = TEXTS[name].query
        if len(rows) > 1 and query.startswith("DELETE"):
            self._send_many(_using(name), rows)
            return
        for row in rows:
            self.pipe.send(query, row)

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Insert rows by a statement with one `VALUES (...)`."""
        self._expected.clear()
        if len(rows) == 1:
            self.pipe.send(TEXTS[name].query, rows[0])
        elif rows:
            self._send_many(_unnested(name), rows)

    def insert_new(self, name: str, rows: Sequence[Row]) -> None:
        """Insert runs; those whose ids are known are left out by the statement."""
        self._expected.clear()
        if rows:
            _all_new(self._send_many(_unnested(name), rows), len(rows))

    def insert_alike(self, name: str, count: int, first: int, rank: int, shared: Row, own: Sequence[str] = ()) -> None:
        """Insert rows that share most of their values."""
        self._expected.clear()
        if own:
            values = (first, rank, *shared, _strings(own[::2]), _strings(own[1::2]))
            _all_new(self.pipe.send(TEXTS[name].query, values), count)
        else:
            self.pipe.send(TEXTS[name].query, (first, rank, *shared, count))

    def say(self, query: str, *values: str) -> None:
        """Do a statement that has no name, and do not wait for it."""
        self.pipe.send(query, values)

    def _send_many(self, many: _Many, rows: Sequence[Row]) -> Found:
        columns = zip(many.kinds, zip(*rows, strict=True), strict=True)
        found = self.pipe.send(many.query, [_ARRAYS[kind](column) for kind, column in columns])
        self.pipe.flush()  # the server can begin
        return found


def _all_new(inserted: Found, count: int) -> None:
    if inserted.rowcount < count:
        raise DuplicateError


class _Many(NamedTuple):
    """A statement for many rows, and of which kind its columns are."""

    query: str
    kinds: tuple[str, ...]


@cache
def _unnested(name: str) -> _Many:
    """Return the statement for many rows: every `$n::type` of its VALUES becomes a column of `unnest`."""
    query = TEXTS[name].query
    [group] = _VALUES.findall(query)
    typed = _TYPED.findall(group)
    arrays = ", ".join(f"${number}::text::{kind}[]" for number, kind in typed)
    names = ", ".join(f"c{number}" for number, _ in typed)
    chosen = _TYPED.sub(lambda found: f"c{found[1]}", group)
    rows = f"SELECT {chosen} FROM unnest({arrays}) AS given({names})"  # noqa: S608 - made of our own texts
    many = _VALUES.sub(lambda _: rows, query)
    return _Many(many, tuple(kind for _, kind in typed))


@cache
def _using(name: str) -> _Many:
    """Return a deleting statement for many rows: every `$n::type` becomes a column of `unnest`."""
    query = TEXTS[name].query
    typed = list(dict.fromkeys(_TYPED.findall(query)))
    arrays = ", ".join(f"${number}::text::{kind}[]" for number, kind in typed)
    names = ", ".join(f"c{number}" for number, _ in typed)
    where = _TYPED.sub(lambda found: f"given.c{found[1]}", query)
    many = where.replace(" WHERE ", f" USING unnest({arrays}) AS given({names}) WHERE ", 1)
    return _Many(many, tuple(kind for _, kind in typed))


def _numbers(column: Sequence[int | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else str(int(value)) for value in column]) + "}"


def _strings(column: Sequence[str | None]) -> str:
    r"""Return an array as PostgreSQL reads it.

    >>> print(_strings(["plain", 'say "x"', None]))
    {"plain","say \"x\"",NULL}
    """
    return "{" + ",".join(["NULL" if text is None else f'"{_escaped(text)}"' for text in column]) + "}"


def _escaped(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return text.replace('"', '\\"') if '"' in text else text


_ARRAYS: dict[str, Callable[[Sequence[Any]], str]] = {"text": _strings, "int": _numbers, "bigint": _numbers}
