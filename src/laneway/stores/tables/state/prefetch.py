"""Reads the fronts of shelves from their tables, and prefetches what the rules will need next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from laneway.core.queue.turns import AGAIN, BACK
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.rows.shelf import Key, Reader, Shelf
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state.circuit_sets import CircuitSets
from laneway.stores.tables.state.counts import Counts

_SQL = sql_names("shelves")
_kind = attrgetter("kind")
_DEEPEST = 16  # runs to read ahead of one parked set


class ShelfPrefetch(Reader):
    """The shelves that a transaction has used, with the runs that it has read.

    `resumed`: a run may have been started before, even if its kind says otherwise. `counted`: the counts in memory
    equal those in the tables.
    """

    def __init__(self, db: Database, counts: Counts, sets: CircuitSets, *, resumed: bool, counted: bool) -> None:
        self._db, self._counts, self._sets = db, counts, sets
        self._resumed, self._counted = resumed, counted
        self.page = 8  # ready runs to read at once
        self.ready: dict[str, Shelf] = {}
        self.parked: dict[tuple[str, str], Shelf] = {}  # by lane and gate
        self.held: dict[str, Shelf] = {}

    def ready_of(self, lane: str) -> Shelf:
        """Return the ready order of a lane."""
        shelf = self.ready.get(lane)
        if shelf is None:
            shelf = self.ready[lane] = Shelf("ready", (lane,))
            if self._counted and not self._counts.lanes.had_ready(lane):
                shelf.know_empty()
        return shelf

    def parked_of(self, lane: str, gate: str) -> Shelf:
        """Return a parked set of a lane."""
        key = lane, gate
        shelf = self.parked.get(key)
        if shelf is None:
            shelf = self.parked[key] = Shelf("parked", key)
        return shelf

    def held_of(self, session: str) -> Shelf:
        """Return the runs that a session holds back."""
        shelf = self.held.get(session)
        if shelf is None:
            shelf = self.held[session] = Shelf("held", (session,))
        return shelf

    def read(self, shelf: Shelf, after: Key, page: int) -> tuple[Sequence[RunRow], bool]:
        """Read the next page of a shelf; see `Reader`."""
        if shelf.table == "ready":
            return self._read_ready(shelf, after)
        runs, more = self._read_on(shelf, after, page)
        if shelf.table == "parked":
            # Not for held runs: a session admits one now and then.
            self._counts.fetch(runs)
        return runs, more

    def expect(self, runs: Collection[RunRow]) -> None:
        """Load, in one query each, the runs that may follow when these runs free their slots and session places."""
        users = Counter([(run.lane, run.user) for run in runs if run.user is not None])
        asked = self._ask_parked(users), self._ask_held({run.session for run in runs if run.session is not None})
        self._counts.fetch(runs)
        self._prime(*asked)

    def complete(self, runs: list[RunRow]) -> list[RunRow]:
        """Read the missing columns of the runs that may have been started before; return all runs."""
        resumed = self._resumed
        if not resumed and not any(map(_kind, runs)):
            return runs
        again = {run.number: run for run in runs if resumed or run.kind & AGAIN}
        if again:
            for number, *facts in self._db.execute(_SQL["tried"], (as_json(again),)):
                run = again[number]
                run.attempt, run.crashes, run.fence, run.events, run.checkpoint, run.prepared, run.kept = facts
        return runs

    def _ask_parked(self, freed: Mapping[tuple[str, str], int]) -> Iterable[tuple[Shelf, RunRow]]:
        """Send the query for the first runs of users' parked sets; return an iterator of its result, with the shelves.

        `freed` is the number of slots, by lane and user, that become free.
        """
        gates = [(lane, f"user:{user}") for lane, user in freed]
        gates = [gate for gate in gates if gate not in self.parked]
        if not gates:
            return ()
        # Each freed slot brings one run back; the start of the last one looks at one run more.
        depth = min(max(freed.values()) + 1, _DEEPEST)
        rows = self._db.execute(_SQL["first_parked"], (as_json(gates), depth))

        def read() -> Iterator[tuple[Shelf, RunRow]]:
            for *facts, gate in rows:
                run = RunRow(*facts)
                yield self.parked_of(run.lane, gate), run

        return read()

    def _ask_held(self, names: Collection[str]) -> Iterable[tuple[Shelf, RunRow]]:
        """Send the query for the first run that each session holds back; return an iterator of its result."""
        wanted = [name for name in names if name not in self.held]
        if not wanted:
            return ()
        rows = self._db.execute(_SQL["first_held"], (as_json(wanted),))

        def read() -> Iterator[tuple[Shelf, RunRow]]:
            for row in rows:
                run = RunRow(*row)
                yield self.held_of(str(run.session)), run

        return read()

    def _prime(self, *asked: Iterable[tuple[Shelf, RunRow]]) -> None:
        """Add the first runs to each shelf."""
        firsts: dict[Shelf, list[RunRow]] = {}
        for shelf, run in chain(*asked):
            firsts.setdefault(shelf, []).append(run)
        runs = self.complete([run for found in firsts.values() for run in found])
        self._counts.fetch(runs)
        for shelf, found in firsts.items():
            found.sort(key=attrgetter("rank", "number"))
            shelf.prime(found)

    def _read_ready(self, shelf: Shelf, after: Key) -> tuple[Sequence[RunRow], bool]:
        [lane] = shelf.key
        # The lane cannot start more than it has room for; a few more may have to be parked.
        count = min(self.page, max(8, self._counts.lanes[lane].room()))
        rows, more = self._db.page(_SQL["ready"], (lane, *after), count)
        runs = self.complete([RunRow(*row) for row in rows])
        self._counts.fetch(runs)
        # A run that came back brings its user's next run back when it starts.
        back = Counter((run.lane, run.user) for run in runs if run.kind & BACK and run.user is not None)
        self._prime(self._ask_parked(back))
        self._sets.expect(runs)
        return runs, more

    def _read_on(self, shelf: Shelf, after: Key, page: int) -> tuple[list[RunRow], bool]:
        rows, more = self._db.page(_SQL[shelf.table], (*shelf.key, *after), self._count_of(page))
        runs = self.complete([RunRow(*row) for row in rows])
        self._sets.expect(runs)
        return runs, more

    def _count_of(self, page: int) -> int:
        # Mostly one run is needed; after the first page, or over a network, read more at once.
        return int(4 ** min(page + max(page > 0, self._db.ahead), 4))
