"""The core's counts, kept in tables: loaded when a rule first asks for them, written back when the transaction ends.

Within `BEGIN IMMEDIATE` nobody else writes, so what was loaded stays true until the commit; whether it does beyond that
is `step_cache`'s business. A ledger knows what each row was and writes only what differs. *Invariant*: a row that
counts nothing is not stored, so the tables are as small as what is going on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from laneway.core.queue.turns import Ledger
from laneway.stores.tables.runtime.step_cache import Known
from laneway.stores.tables.sql.statements import Row

K = TypeVar("K")
V = TypeVar("V")


class StoredLedger(Ledger[K, V]):
    """A ledger over a table; `changes` returns the rows to write.

    It contains the values that a rule has used and may have changed. `_known` has all values that are loaded, and
    `_rows` the rows of those that are stored. *Invariant*: a value of the ledger is the one in `_known` under the same
    key.

    It has no reference cycles: each transaction makes several ledgers, and cycles would keep Python's garbage collector
    busy.
    """

    def __init__(self, make: Callable[[], V], known: Known[K, V]) -> None:
        super().__init__(make)
        self._known, self._rows = known.values, known.rows

    def __missing__(self, key: K) -> V:
        value = self._known.get(key)
        if value is None:
            self.fetch((key,))
            value = self._known[key]
        self[key] = value
        return value

    def touch(self, keys: Iterable[K]) -> None:
        """Put the known values of these keys into the ledger: one call, where a rule would look up each."""
        known = self._known
        self.update({key: known[key] for key in keys if key in known})

    def put_back(self, key: K, value: V) -> None:
        """Set a value that was taken from the ledger before, whatever is there now."""
        self[key] = self._known[key] = value

    def fetch(self, keys: Iterable[K]) -> None:
        """Load the values of these keys that are not known, in one query."""
        self.ask(keys)()

    def ask(self, keys: Iterable[K]) -> Callable[[], None]:
        """Send the query for the unknown keys; return what loads its result: other queries can be sent before."""
        known = self._known
        wanted = {key for key in keys if key not in known}
        if not wanted:
            return _loaded
        found = self._read(wanted)

        def load() -> None:
            for key, value, row in found():
                # A query may return more rows than wanted; a known value may have changed since it was read.
                if key not in known:
                    known[key], self._rows[key] = value, row
            for key in wanted:
                if key not in known:
                    known[key] = self.made(key)

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
        raise NotImplementedError


def _loaded() -> None:
    """There is nothing to load."""
