"""What the verbs ask of a database: named statements inside a transaction that somebody else began and will end.

SQLite and PostgreSQL keep the same tables, so they share the verbs of this package and differ in what a statement says,
in how a transaction begins, and in what happens around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from laneway.stores.tables.sql.statements import Row


class DuplicateError(Exception):
    """A run's id was seen before. Whoever inserted it undoes what was written of the batch."""


class Question(NamedTuple):
    """A reading statement that will be asked for: by `execute`, or by `page` if it says how many at `most`."""

    name: str
    values: Row = ()
    most: int | None = None


class Answer(Protocol):
    """What a statement found. It may be fetched once."""

    @property
    def rowcount(self) -> int:
        """How many rows a writing statement has changed."""

    def fetchone(self) -> Any:
        """Return the next row, if there is one."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Go through the rows."""


class Database(Protocol):
    """A connection inside a transaction; nobody else writes until it has ended."""

    @property
    def ahead(self) -> int:
        """How far to read ahead: 0 where reading once more costs next to nothing, more where each is a journey."""

    def now(self) -> int:
        """Return the store's time: of the server where there is one, else the machine's."""

    def execute(self, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Answer:
        """Do a statement."""

    def page(self, name: str, values: Row, count: int) -> tuple[list[Any], bool]:
        """Do a statement that reads up to so many rows; return them, and whether there may be more.

        If it was expected, it brings as many as were said then.
        """

    def expect(self, *questions: Question) -> None:
        """Take note that these will be asked for, unless a table that they read is written before.

        Where each answer is a journey they are sent at once, and what is asked then has come already.
        """

    def each(self, name: str, rows: Sequence[Row]) -> None:
        """Do the statement for each row."""

    def insert(self, name: str, rows: Sequence[Row], known: Sequence[Row] = ()) -> None:
        """Insert rows by a statement that says so of one, and write over those that are `known` to be there."""

    def insert_new(self, name: str, rows: Sequence[Row]) -> None:
        """Insert runs. Raises DuplicateError if an id is known; then some of them may be written."""

    def insert_uniform(
        self, name: str, first: int, rank: int, shared: Row, ids: Sequence[str], args: Sequence[str]
    ) -> None:
        """Insert runs of a uniform batch: numbers and ranks are counted up, ids and arguments are each run's own.

        Raises DuplicateError as `insert_new` does.
        """
