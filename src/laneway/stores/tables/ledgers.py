"""The core's counts, kept in tables: loaded when a rule first asks for them, written back when the transaction ends.

Within `BEGIN IMMEDIATE` nobody else writes, so what was loaded stays true until the commit; whether it does beyond that
is `remembering`'s business. A ledger knows what each row was and writes only what differs. *Invariant*: a row that
counts nothing is not stored, so the tables are as small as what is going on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from laneway.core.turns import Ledger
from laneway.stores.tables.remembering import Known
from laneway.stores.tables.statements import Row

K = TypeVar("K")
V = TypeVar("V")
Load = Callable[[set[K]], Callable[[], Iterable[tuple[K, V, Row]]]]  # asks, and returns what reads the answers


class StoredLedger(Ledger[K, V]):
    """A ledger over a table. `row_of` is what is stored of a value under its key: None if it counts nothing.

    In it is what a rule has asked for, and may have changed. All that was read, or need not be, is in `known`.
    """

    def __init__(
        self, make: Callable[[], V], read: Load[K, V], row_of: Callable[[K, V], Row | None], known: Known[K, V]
    ) -> None:
        super().__init__(make)
        self._read, self._row_of = read, row_of
        self._known, self._rows = known.values, known.rows

    def __missing__(self, key: K) -> V:
        value = self._known.get(key)
        if value is None:
            self.fetch((key,))
            value = self._known[key]
        self[key] = value
        return value

    def touch(self, keys: Iterable[K]) -> None:
        """Have at hand what is known of these: a call for all of them, where a rule would ask for each."""
        known = self._known
        # What is at hand already may be another: one that was put back.
        self.update({key: known[key] for key in keys if key in known and key not in self})

    def fetch(self, keys: Iterable[K]) -> None:
        """Load these, those known excepted, in one query."""
        self.ask(keys)()

    def ask(self, keys: Iterable[K]) -> Callable[[], None]:
        """Ask for these, those known excepted; return what loads them: others can ask before anybody waits."""
        known = self._known
        wanted = {key for key in keys if key not in known}
        if not wanted:
            return _loaded
        found = self._read(wanted)

        def load() -> None:
            for key, value, row in found():
                # A query may bring more than was asked for; what is known already may have changed since.
                if key not in known:
                    known[key], self._rows[key] = value, row
            for key in wanted:
                if key not in known:
                    known[key] = self.made(key)

        return load

    def made(self, key: K) -> V:
        """Return what is not stored."""
        return self._make()

    def emptied(self, key: K) -> None:
        """Keep it: as it counts nothing, it is as good as new. Its row goes when the transaction ends."""

    def changes(self) -> tuple[list[Row], list[Row], list[K]]:
        """Return the rows that are new, those that must be written over, and the keys of those that must be deleted."""
        new: list[Row] = []
        changed: list[Row] = []
        gone: list[K] = []
        rows, row_of = self._rows, self._row_of
        for key, value in self.items():
            row, was = row_of(key, value), rows.get(key)
            if row is None:
                if was is not None:
                    gone.append(key)
                    del rows[key]
            elif row != was:
                (new if was is None else changed).append(row)
                rows[key] = row
        return new, changed, gone


def _loaded() -> None:
    """There is nothing to load."""
