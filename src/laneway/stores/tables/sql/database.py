"""The database as the verbs use it: it executes named statements inside a transaction that the writer begins and ends.

SQLite and PostgreSQL have the same tables, so they share the verbs of this package. They differ in the text of the
statements, in how a transaction begins, and in what happens around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from laneway.stores.tables.sql.statements import Row


class DuplicateError(Exception):
    """The id of a run exists. The caller undoes what was written of the batch."""


class Query(NamedTuple):
    """A reading statement with its values: for `execute`, or for `page` if it has `most`, the number of rows."""

    name: str
    values: Row = ()
    most: int | None = None


class Cursor(Protocol):
    """The rows that a statement has found. They can be fetched once."""

    @property
    def rowcount(self) -> int:
        """The number of rows that a writing statement has changed."""

    def fetchone(self) -> Any:
        """Return the next row, if there is one."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows."""


class Database(Protocol):
    """A connection inside a transaction; no other transaction writes until it has ended."""

    @property
    def ahead(self) -> int:
        """How far to prefetch: 0 where a read costs next to nothing, more where each is a round trip."""

    def now(self) -> int:
        """Return the store's time: the time of the server if there is one, else of this machine."""

    def execute(self, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Execute a statement."""

    def page(self, name: str, values: Row, count: int) -> tuple[list[Any], bool]:
        """Execute a statement that reads up to `count` rows; return them, and whether more may exist.

        If it was expected, it reads the number of rows that was given there.
        """

    def expect(self, *queries: Query) -> None:
        """Prefetch these, for use before a table that they read is written.

        Over a network they are sent now, in one round trip; a later `execute` or `page` finds the result here.
        """

    def each(self, name: str, rows: Sequence[Row]) -> None:
        """Execute the statement for each row."""

    def insert(self, name: str, rows: Sequence[Row], known: Sequence[Row] = ()) -> None:
        """Insert rows by a statement that inserts one, and update the rows that are `known` to exist."""

    def insert_new(self, name: str, rows: Sequence[Row]) -> None:
        """Insert runs. Raises DuplicateError if an id exists; some of the runs may be written then."""

    def insert_uniform(
        self, name: str, first: int, rank: int, shared: Row, ids: Sequence[str], args: Sequence[str]
    ) -> None:
        """Insert the runs of a uniform batch: numbers and ranks count up, ids and arguments are given per run.

        Raises DuplicateError as `insert_new` does.
        """
