"""The sets of runs parked behind circuits: their sizes per lane, and which of them a claim may take from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.state.circuits import Circuits

_SQL = sql_names("circuits")


class CircuitSets:
    """The sets, in one transaction. `any_`: there are such sets."""

    def __init__(self, db: Database, now: int, circuits: Circuits, *, any_: bool) -> None:
        self._db, self._now, self._circuits, self._any = db, now, circuits, any_
        self._counts: Counter[tuple[str, str]] = Counter()  # differences to the table

    @cached_property
    def open(self) -> Mapping[str, Collection[str]]:
        """The keys of circuits, by lane, that let parked runs start; not those that this transaction parks."""
        found: dict[str, list[str]] = {}
        if self._any:
            # Settlements of this transaction may have opened or closed some.
            self._circuits.write()
            for lane, key in self._db.execute(_SQL["open"], (self._now,)):
                found.setdefault(lane, []).append(key)
            self._circuits.fetch({key for keys in found.values() for key in keys})
        return found

    def expect(self, runs: Iterable[RunRow]) -> None:
        """Load the circuits of these runs, in one query."""
        guarded = self._circuits.tasks
        if guarded:
            self._circuits.expect([run for run in runs if run.task in guarded])

    def count(self, lane: str, key: str, change: int) -> None:
        """Add to the number of parked runs."""
        self._counts[lane, key] += change
        self._circuits.rescheduled = True

    def write(self) -> None:
        """Write the counts that changed."""
        if self._counts:
            self._db.insert(_SQL["count"], [(*where, change) for where, change in self._counts.items() if change])
            self._db.each(_SQL["uncount"], [where for where, change in self._counts.items() if change < 0])
            self._counts.clear()
