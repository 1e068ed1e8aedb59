"""A PostgreSQL connection inside a transaction, as the verbs see it.

**Round trips.** What only writes is sent and not waited for, so a verb waits as often as it reads. Texts use `$1`, or
`:name` where a mapping is given.

**Many rows.** A statement that says `VALUES ($1::type, ...)`, or deletes, is done for many rows at once: see `unnest`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.stores.postgres.server import arrays
from laneway.stores.postgres.server.pipeline import Found, Pipe
from laneway.stores.postgres.server.settings import WHOLE
from laneway.stores.postgres.transactions.unnest import for_rows
from laneway.stores.tables.sql.database import Cursor, DuplicateError, Query
from laneway.stores.tables.sql.statements import Row, as_json, sql_names, texts

_KNOWN = sql_names("acceptance")["known"]
_NAMED = re.compile(r"(?<!:):([a-z_]+)")
_READ = re.compile(r"(?:FROM|JOIN) (\w+)")
_WRITTEN = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")


class Text(NamedTuple):
    """A statement as the server takes it, and the names of its values if it has any."""

    query: str
    names: tuple[str, ...]
    reads: frozenset[str]  # tables, and it may be other words
    writes: frozenset[str]


def _numbered(text: str) -> Text:
    names = tuple(dict.fromkeys(_NAMED.findall(text)))
    query = _NAMED.sub(lambda name: f"${names.index(name[1]) + 1}", text)
    return Text(query, names, frozenset(_READ.findall(query)), frozenset(_WRITTEN.findall(query)))


TEXTS = {name: _numbered(text) for name, text in texts("laneway.stores.postgres").items()}


class PostgresDatabase:
    """Fulfils `Database` over a connection that is in a transaction."""

    __slots__ = ("_expected", "_whole", "now", "pipe")
    ahead = 2

    def __init__(self, pipe: Pipe, now: Callable[[], int] = lambda: 0) -> None:
        self.pipe, self.now = pipe, now  # whoever begins the transaction says what time it is
        # What was asked ahead, until a table is written that it reads; and how many rows it reads, if that was said.
        self._expected: dict[tuple[str, Row], tuple[Found, int]] = {}
        self._whole = False  # it was said that whole tables are read

    def execute(self, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Do a statement."""
        if not self._whole and name.startswith("check."):
            self._whole = True
            self.pipe.send(WHOLE)
        text = TEXTS[name]
        if isinstance(values, Mapping):
            values = [values[name] for name in text.names]
        elif self._expected and (came := self._expected.pop((name, tuple(values)), None)) is not None:
            return came[0]
        self._forget(text)
        return self.pipe.send(text.query, values)

    def page(self, name: str, values: Row, count: int) -> tuple[list[Any], bool]:
        """Do a statement that reads up to so many rows."""
        came = self._expected.pop((name, values), None)
        found, count = came or (self.pipe.send(TEXTS[name].query, (*values, count)), count)
        rows = found.fetchall()
        return rows, len(rows) == count

    def expect(self, *questions: Query) -> None:
        """Send these, to be answered in one journey."""
        for name, values, most in questions:
            if (name, values) not in self._expected:
                asked = values if most is None else (*values, most)
                self._expected[name, values] = self.pipe.send(TEXTS[name].query, asked), most or 0

    def each(self, name: str, rows: Sequence[Row]) -> None:
        """Do the statement for each row; one that deletes is done for all of them at once."""
        if not rows:
            return
        query = self._forget(TEXTS[name]).query
        if len(rows) > 1 and query.startswith("DELETE"):
            self._send_many(query, rows)
            return
        for row in rows:
            self.pipe.send(query, row)

    def insert(self, name: str, rows: Sequence[Row], known: Sequence[Row] = ()) -> None:
        """Insert rows by a statement with one `VALUES (...)`; of those that are known `known_counts` has one."""
        if known:
            self._send_rows(self._forget(TEXTS[name.replace("counts.", "known_counts.")]).query, known)
        if rows:
            self._send_rows(self._forget(TEXTS[name]).query, rows)

    def _send_rows(self, query: str, rows: Sequence[Row]) -> None:
        if len(rows) == 1:
            self.pipe.send(query, rows[0])
        else:
            self._send_many(query, rows)

    def insert_new(self, name: str, rows: Sequence[Row]) -> None:
        """Insert runs; those whose ids are known are left out by the statement."""
        if rows:
            _all_new(self._send_many(self._forget(TEXTS[name]).query, rows), len(rows))

    def insert_uniform(
        self, name: str, first: int, rank: int, shared: Row, ids: Sequence[str], args: Sequence[str]
    ) -> None:
        """Insert runs of a uniform batch. If it was asked ahead which ids are known, nobody waits."""
        came = self._expected.get((_KNOWN, (as_json(ids),)))
        query = self._forget(TEXTS[name]).query
        if came is not None and (len(set(ids)) < len(ids) or came[0].fetchall()):
            raise DuplicateError
        inserted = self.pipe.send(query, (first, rank, *shared, arrays.texts(ids), arrays.texts(args)))
        if came is None:
            _all_new(inserted, len(ids))

    def say(self, query: str, *values: str) -> None:
        """Do a statement that has no name, and do not wait for it."""
        self.pipe.send(query, values)

    def _forget(self, text: Text) -> Text:
        """Forget what was asked ahead and need not be true once this statement is done."""
        if text.writes:
            stale = [asked for asked in self._expected if not TEXTS[asked[0]].reads.isdisjoint(text.writes)]
            for asked in stale:
                del self._expected[asked]
        return text

    def _send_many(self, query: str, rows: Sequence[Row]) -> Found:
        found = self.pipe.send(*for_rows(query, rows))
        self.pipe.flush()  # the server can begin
        return found


def _all_new(inserted: Found, count: int) -> None:
    if inserted.rowcount < count:
        raise DuplicateError
