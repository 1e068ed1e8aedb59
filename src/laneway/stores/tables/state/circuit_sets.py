"""How many runs are parked behind each circuit, per lane, and from which of these sets a claim may take."""

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
    """Of one transaction. `any_`: there are such sets."""

    def __init__(self, db: Database, now: int, circuits: Circuits, *, any_: bool) -> None:
        self._db, self._now, self._circuits, self._any = db, now, circuits, any_
        self._counts: Counter[tuple[str, str]] = Counter()  # how many more are there than the table says

    @cached_property
    def open(self) -> Mapping[str, Collection[str]]:
        """The keys of circuits, by lane, that let parked runs start. What a transaction parks itself may not start."""
        found: dict[str, list[str]] = {}
        if self._any:
            # What was settled in this transaction may have opened or closed some.
            self._circuits.write()
            for lane, key in self._db.execute(_SQL["open"], (self._now,)):
                found.setdefault(lane, []).append(key)
            self._circuits.fetch({key for keys in found.values() for key in keys})
        return found

    def expect(self, runs: Iterable[RunRow]) -> None:
        """Read, in one query, the circuits that will be asked about these runs."""
        guarded = self._circuits.tasks
        if guarded:
            self._circuits.expect([run for run in runs if run.task in guarded])

    def count(self, lane: str, key: str, change: int) -> None:
        """Count so many more runs as parked."""
        self._counts[lane, key] += change
        self._circuits.rescheduled = True

    def write(self) -> None:
        """Write the counts that changed."""
        if self._counts:
            self._db.insert(_SQL["count"], [(*where, change) for where, change in self._counts.items() if change])
            self._db.each(_SQL["uncount"], [where for where, change in self._counts.items() if change < 0])
            self._counts.clear()
