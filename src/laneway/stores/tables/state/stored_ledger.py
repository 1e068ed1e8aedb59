"""The core's counts, kept in tables: loaded when a rule first needs them, written back when the transaction ends.

No other transaction writes meanwhile, so loaded values stay true until the COMMIT. A ledger keeps each row as it was
and writes only rows that differ. *Invariant*: a count of nothing is not stored, so the tables are as small as the
current work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from laneway.core.queue.turns import Ledger
from laneway.stores.tables.sql.statements import Row

K = TypeVar("K")
V = TypeVar("V")


class StoredLedger(Ledger[K, V]):
    """A ledger over a table; `changes` returns the rows to write. `_rows` has the stored rows of the loaded values.

    It has no reference cycles: each transaction makes several ledgers, and cycles would keep Python's garbage collector
    busy.
    """

    def __init__(self, make: Callable[[], V]) -> None:
        super().__init__(make)
        self._rows: dict[K, Row] = {}

    def __missing__(self, key: K) -> V:
        self.fetch((key,))
        return self[key]

    def fetch(self, keys: Iterable[K]) -> None:
        """Load the values of these keys that are not loaded, in one query."""
        self.send_query(keys)()

    def send_query(self, keys: Iterable[K]) -> Callable[[], None]:
        """Send the query for the keys that are not loaded; return what loads its result: others can be sent before."""
        wanted = {key for key in keys if key not in self}
        if not wanted:
            return _loaded
        found = self._read(wanted)

        def load() -> None:
            for key, value, row in found():
                # A query may return more rows than wanted; a loaded value may have changed since it was read.
                if key not in self:
                    self[key], self._rows[key] = value, row
            for key in wanted:
                if key not in self:
                    self[key] = self.made(key)

        return load

    def _read(self, keys: set[K]) -> Callable[[], Iterable[tuple[K, V, Row]]]:
        """Send the query for these keys; return a function that reads its result."""
        raise NotImplementedError

    def made(self, key: K) -> V:
        """Return the value of a key that is not stored."""
        return self._make()

    def emptied(self, key: K) -> None:
        """Keep the value, which equals a new one. Its row is deleted when the transaction ends."""

    def changes(self) -> tuple[list[Row], list[Row], list[K]]:
        """Return the rows to insert, the rows to update, and the keys of the rows to delete."""
        new: list[Row] = []
        changed: list[Row] = []
        gone: list[K] = []
        rows = self._rows
        for key, value in self.items():
            was, row = rows.get(key), self._row(key, value)
            if row is None:
                if was is not None:
                    gone.append(key)
            elif was is None:
                new.append(row)
            elif row != was:
                changed.append(row)
        return new, changed, gone

    def _row(self, key: K, value: V) -> Row | None:
        """Return the row of a value, None if it counts nothing."""
        raise NotImplementedError


def _loaded() -> None:
    """Load nothing."""
