"""A PostgreSQL connection inside a transaction, as the verbs use it.

**Round trips.** Statements that only write are sent without waiting, so a verb waits only for its reads. The texts of
statements have parameters `$1`, or `:name` if the values are a mapping.

**Many rows.** A statement with `VALUES ($1::type, ...)`, or a DELETE, is executed for many rows at once: see `unnest`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.stores.postgres.server import arrays
from laneway.stores.postgres.server.pipeline import Pipeline, Result
from laneway.stores.postgres.server.settings import WHOLE
from laneway.stores.postgres.transactions.unnest import for_rows
from laneway.stores.tables.sql.database import Cursor, DuplicateError, Query
from laneway.stores.tables.sql.statements import Row, as_json, sql_names, texts

_KNOWN = sql_names("acceptance")["known"]
_NAMED = re.compile(r"(?<!:):([a-z_]+)")
_READ = re.compile(r"(?:FROM|JOIN) (\w+)")
_WRITTEN = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")


class StatementText(NamedTuple):
    """A statement in the server's form, and the names of its values if they have names."""

    query: str
    names: tuple[str, ...]
    reads: frozenset[str]  # tables, and perhaps other words
    writes: frozenset[str]


def _numbered(text: str) -> StatementText:
    names = tuple(dict.fromkeys(_NAMED.findall(text)))
    query = _NAMED.sub(lambda name: f"${names.index(name[1]) + 1}", text)
    return StatementText(query, names, frozenset(_READ.findall(query)), frozenset(_WRITTEN.findall(query)))


def _parameter(nth: int, kind: str) -> str:
    return f"${nth}::{kind}"


TEXTS = {name: _numbered(text) for name, text in texts("laneway.stores.postgres", _parameter).items()}


class PostgresDatabase:
    """Implements `Database` over a connection in a transaction."""

    __slots__ = ("_expected", "_whole", "now", "pipe")
    ahead = 2

    def __init__(self, pipe: Pipeline, now: Callable[[], int] = lambda: 0) -> None:
        self.pipe, self.now = pipe, now  # whoever begins the transaction sets the time
        # Results of prefetched queries, until a table that they read is written; each with its number of rows, if
        # given.
        self._expected: dict[tuple[str, Row], tuple[Result, int]] = {}
        self._whole = False  # the planner settings for reads of whole tables are on

    def execute(self, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Execute a statement."""
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
        """Execute a statement that reads up to `count` rows."""
        came = self._expected.pop((name, values), None)
        found, count = came or (self.pipe.send(TEXTS[name].query, (*values, count)), count)
        rows = found.fetchall()
        return rows, len(rows) == count

    def expect(self, *queries: Query) -> None:
        """Send these: one round trip for all."""
        for name, values, most in queries:
            if (name, values) not in self._expected:
                asked = values if most is None else (*values, most)
                self._expected[name, values] = self.pipe.send(TEXTS[name].query, asked), most or 0

    def each(self, name: str, rows: Sequence[Row]) -> None:
        """Execute the statement for each row; a DELETE for all rows at once."""
        if not rows:
            return
        query = self._forget(TEXTS[name]).query
        if len(rows) > 1 and query.startswith("DELETE"):
            self._send_many(query, rows)
            return
        for row in rows:
            self.pipe.send(query, row)

    def insert(self, name: str, rows: Sequence[Row], known: Sequence[Row] = ()) -> None:
        """Insert rows by a statement with one `VALUES (...)`; update `known` rows by its twin in `known_counts`."""
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
        """Insert runs; the statement leaves out those whose ids exist."""
        if rows:
            _all_new(self._send_many(self._forget(TEXTS[name]).query, rows), len(rows))

    def insert_uniform(
        self, name: str, first: int, rank: int, shared: Row, ids: Sequence[str], args: Sequence[str]
    ) -> None:
        """Insert runs of a uniform batch. No wait if the existing ids were prefetched."""
        came = self._expected.get((_KNOWN, (as_json(ids),)))
        query = self._forget(TEXTS[name]).query
        if came is not None and (len(set(ids)) < len(ids) or came[0].fetchall()):
            raise DuplicateError
        inserted = self.pipe.send(query, (first, rank, *shared, arrays.texts(ids), arrays.texts(args)))
        if came is None:
            _all_new(inserted, len(ids))

    def say(self, query: str, *values: str) -> None:
        """Send a statement that has no name, without waiting for it."""
        self.pipe.send(query, values)

    def _forget(self, text: StatementText) -> StatementText:
        """Drop the prefetched results that this statement may change."""
        if text.writes:
            stale = [asked for asked in self._expected if not TEXTS[asked[0]].reads.isdisjoint(text.writes)]
            for asked in stale:
                del self._expected[asked]
        return text

    def _send_many(self, query: str, rows: Sequence[Row]) -> Result:
        found = self.pipe.send(*for_rows(query, rows))
        self.pipe.flush()  # so that the server begins
        return found


def _all_new(inserted: Result, count: int) -> None:
    if inserted.rowcount < count:
        raise DuplicateError
