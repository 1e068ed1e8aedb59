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
    """A ledger over a table; `changes` says what is to be written there.

    In it is what a rule has asked for, and may have changed. All that was read, or need not be, is `seen`, and of what
    is stored there is its row. *Invariant*: what is in it is what is seen under the same key.

    Nothing in it refers to itself: each transaction makes some, and what a busy step leaves behind is much to do for
    Python's garbage collector.
    """

    def __init__(self, make: Callable[[], V], known: Known[K, V]) -> None:
        super().__init__(make)
        self._known, self._rows = known.values, known.rows

    @property
    def seen(self) -> dict[K, V]:
        """What was read, or need not be."""
        return self._known

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
        self.update({key: known[key] for key in keys if key in known})

    def put_back(self, key: K, value: V) -> None:
        """Keep what was taken from here before, whatever is here by now."""
        self[key] = self._known[key] = value

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

    def _read(self, keys: set[K]) -> Callable[[], Iterable[tuple[K, V, Row]]]:
        """Ask the table for these; return what reads the answers."""
        raise NotImplementedError

    def made(self, key: K) -> V:
        """Return what is not stored."""
        return self._make()

    def emptied(self, key: K) -> None:
        """Keep it: as it counts nothing, it is as good as new. Its row goes when the transaction ends."""

    def changes(self) -> tuple[list[Row], list[Row], list[K]]:
        """Return the rows that are new, those that must be written over, and the keys of those that must be deleted."""
        raise NotImplementedError


def _loaded() -> None:
    """There is nothing to load."""
