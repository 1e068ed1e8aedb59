"""The fronts of the shelves: what a transaction reads of their tables, and loads before it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from laneway.core.queue.turns import AGAIN, BACK
from laneway.stores.tables.rows.run_row import Line
from laneway.stores.tables.rows.shelf import Key, Reader, Shelf
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state.circuit_sets import BrokenSets
from laneway.stores.tables.state.counts import Books

_SQL = sql_names("shelves")
_kind = attrgetter("kind")
_DEEPEST = 16  # runs to read ahead of one parked set


class Fronts(Reader):
    """The shelves that a transaction has touched, and what it has read of them.

    `resumed`: runs may have been started before, whatever their kind says. `counted`: the counts that were read are
    those of the tables.
    """

    def __init__(self, db: Database, books: Books, sets: BrokenSets, *, resumed: bool, counted: bool) -> None:
        self._db, self._books, self._sets = db, books, sets
        self._resumed, self._counted = resumed, counted
        self.page = 8  # how many ready runs to read at once
        self.ready: dict[str, Shelf] = {}
        self.parked: dict[tuple[str, str], Shelf] = {}  # by lane and gate
        self.held: dict[str, Shelf] = {}

    def ready_of(self, lane: str) -> Shelf:
        """Return the ready order of a lane."""
        shelf = self.ready.get(lane)
        if shelf is None:
            shelf = self.ready[lane] = Shelf("ready", (lane,))
            if self._counted and not self._books.lanes.had_ready(lane):
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
        """Return what a session holds back."""
        shelf = self.held.get(session)
        if shelf is None:
            shelf = self.held[session] = Shelf("held", (session,))
        return shelf

    def read(self, shelf: Shelf, after: Key, page: int) -> tuple[Sequence[Line], bool]:
        """Read on in the table of a shelf."""
        if shelf.table == "ready":
            return self._read_ready(shelf, after)
        runs, more = self._read_on(shelf, after, page)
        if shelf.table == "parked":
            # Of what a session holds one is admitted now and then: no need to look ahead.
            self._books.fetch(runs)
        return runs, more

    def expect(self, runs: Collection[Line]) -> None:
        """Load, in one query each, what will follow when these runs free their slots and session places."""
        users = Counter([(run.lane, run.user) for run in runs if run.user is not None])
        asked = self._ask_parked(users), self._ask_held({run.session for run in runs if run.session is not None})
        self._books.fetch(runs)
        self._prime(*asked)

    def complete(self, runs: list[Line]) -> list[Line]:
        """Read the rest of those that may have been started before; return all of them."""
        resumed = self._resumed
        if not resumed and not any(map(_kind, runs)):
            return runs
        again = {run.number: run for run in runs if resumed or run.kind & AGAIN}
        if again:
            for number, *facts in self._db.execute(_SQL["tried"], (as_json(again),)):
                run = again[number]
                run.attempt, run.crashes, run.fence, run.events, run.checkpoint, run.prepared, run.kept = facts
        return runs

    def _ask_parked(self, freed: Mapping[tuple[str, str], int]) -> Iterable[tuple[Shelf, Line]]:
        """Send the query for the first runs of users' parked sets; return what reads them, with their shelves.

        `freed` is how many slots of each user, by lane, will be free.
        """
        gates = [(lane, f"user:{user}") for lane, user in freed]
        gates = [gate for gate in gates if gate not in self.parked]
        if not gates:
            return ()
        # As many as slots are freed may come back; one more is looked at by whoever starts the last of them.
        depth = min(max(freed.values()) + 1, _DEEPEST)
        rows = self._db.execute(_SQL["first_parked"], (as_json(gates), depth))

        def read() -> Iterator[tuple[Shelf, Line]]:
            for *facts, gate in rows:
                run = Line(*facts)
                yield self.parked_of(run.lane, gate), run

        return read()

    def _ask_held(self, names: Collection[str]) -> Iterable[tuple[Shelf, Line]]:
        """Send the query for the first run that each of these sessions holds back; return what reads them."""
        wanted = [name for name in names if name not in self.held]
        if not wanted:
            return ()
        rows = self._db.execute(_SQL["first_held"], (as_json(wanted),))

        def read() -> Iterator[tuple[Shelf, Line]]:
            for row in rows:
                run = Line(*row)
                yield self.held_of(str(run.session)), run

        return read()

    def _prime(self, *asked: Iterable[tuple[Shelf, Line]]) -> None:
        """Add its first runs to each shelf."""
        firsts: dict[Shelf, list[Line]] = {}
        for shelf, run in chain(*asked):
            firsts.setdefault(shelf, []).append(run)
        runs = self.complete([run for found in firsts.values() for run in found])
        self._books.fetch(runs)
        for shelf, found in firsts.items():
            found.sort(key=attrgetter("rank", "number"))
            shelf.prime(found)

    def _read_ready(self, shelf: Shelf, after: Key) -> tuple[Sequence[Line], bool]:
        [lane] = shelf.key
        # No more than the lane has room for (and a few that may have to be parked) can be of use.
        count = min(self.page, max(8, self._books.lanes[lane].room()))
        rows, more = self._db.page(_SQL["ready"], (lane, *after), count)
        runs = self.complete([Line(*row) for row in rows])
        self._books.fetch(runs)
        # One that came back brings its user's next one back when it is started.
        back = Counter((run.lane, run.user) for run in runs if run.kind & BACK and run.user is not None)
        self._prime(self._ask_parked(back))
        self._sets.expect(runs)
        return runs, more

    def _read_on(self, shelf: Shelf, after: Key, page: int) -> tuple[list[Line], bool]:
        rows, more = self._db.page(_SQL[shelf.table], (*shelf.key, *after), self._count_of(page))
        runs = self.complete([Line(*row) for row in rows])
        self._sets.expect(runs)
        return runs, more

    def _count_of(self, page: int) -> int:
        # Mostly one run is asked for; who asks for more will ask for many, and so does who has far to go.
        return int(4 ** min(page + max(page > 0, self._db.ahead), 4))
