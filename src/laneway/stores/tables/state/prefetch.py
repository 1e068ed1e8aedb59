"""The fronts of the shelves: what a transaction reads of their tables, and loads before it is asked for.

The fronts of parked sets, and of what sessions hold back, are looked for in what the last transactions have left
(`step_cache`), and left there for the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter

from laneway.core.queue.turns import AGAIN, BACK
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.rows.shelf import Key, Reader, Shelf
from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state.circuit_sets import CircuitSets
from laneway.stores.tables.state.counts import Counts

_SQL = sql_names("shelves")
_kind = attrgetter("kind")
_DEEPEST = 16  # runs to read ahead of one parked set


class ShelfPrefetch(Reader):
    """The shelves that a transaction has touched, and what it has read of them.

    `resumed`: runs may have been started before, whatever their kind says. `counted`: the counts that were read are
    those of the tables.
    """

    def __init__(
        self, db: Database, counts: Counts, cache: StepCache, sets: CircuitSets, *, resumed: bool, counted: bool
    ) -> None:
        self._db, self._counts, self._cache, self._sets = db, counts, cache, sets
        self._resumed, self._counted = resumed, counted
        self.page = 8  # how many ready runs to read at once
        self.ready: dict[str, Shelf] = {}
        self.parked, self.held = cache.parked, cache.held

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
        """Return what a session holds back."""
        shelf = self.held.get(session)
        if shelf is None:
            shelf = self.held[session] = Shelf("held", (session,))
        return shelf

    def read(self, shelf: Shelf, after: Key, page: int) -> tuple[Sequence[RunRow], bool]:
        """Read on in the table of a shelf."""
        if shelf.table == "ready":
            return self._read_ready(shelf, after)
        runs, more = self._read_on(shelf, after, page)
        if shelf.table == "parked":
            # Of what a session holds one is admitted now and then: no need to look ahead.
            self._counts.fetch(runs)
        return runs, more

    def expect(self, runs: Collection[RunRow], read: Collection[RunRow]) -> None:
        """Load, in one query each, what will follow when these runs free their slots and session places.

        `read` are those of them that were read now; the others are remembered, and so is what is counted of them.
        """
        if read:
            self._counts.fetch(read)
        users = Counter([(run.lane, run.user) for run in runs if run.user is not None])
        sessions = Counter([run.session for run in runs if run.session is not None])
        if users:
            self._counts.lanes.touch(users)
            self._expect_parked(users)
        if sessions:
            self._counts.sessions.touch(sessions)
            self._expect_held(sessions)
        if self._db.ahead:
            self._expect_more(users, sessions)

    def complete(self, runs: list[RunRow]) -> list[RunRow]:
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

    def _expect_parked(self, freed: Mapping[tuple[str, str], int]) -> None:
        """Load the fronts of users' parked sets; `freed` is how many slots of each user, by lane, will be free."""
        lanes, known = self._counts.lanes, self.parked
        gates = list[tuple[str, str]]()
        for lane, user in freed:
            seat = lanes[lane].seats[user]
            if seat.parked:
                gate = lane, seat.gate or f"user:{user}"
                shelf = known.get(gate)
                if shelf is None or shelf.is_new:
                    gates.append(gate)
        if gates:
            # As many as slots are freed may come back; one more is looked at by whoever starts the last of them.
            depth = min(max(freed.values()) + 1, _DEEPEST)
            firsts: dict[Shelf, list[RunRow]] = {}
            for *facts, name in self._db.execute(_SQL["first_parked"], (as_json(gates), depth)).fetchall():
                run = RunRow(*facts)
                firsts.setdefault(self.parked_of(run.lane, name), []).append(run)
            self._prime(firsts)

    def _expect_held(self, wanted: Mapping[str, int]) -> None:
        sessions = self._counts.sessions
        names = {name for name in wanted.keys() - self.held.keys() if sessions[name].held}
        if names:
            firsts: dict[Shelf, list[RunRow]] = {}
            for row in self._db.execute(_SQL["first_held"], (as_json(names),)).fetchall():
                run = RunRow(*row)
                firsts.setdefault(self.held_of(str(run.session)), []).append(run)
            self._prime(firsts)

    def _expect_more(self, users: Mapping[tuple[str, str], int], names: Mapping[str, int]) -> None:
        """Expect what comes next on the shelves that will run out: for each run one to come back, and one to follow."""
        lanes, sessions, held, parked = self._counts.lanes, self._counts.sessions, self.held, self.parked
        for (lane, user), count in users.items():
            seat = lanes[lane].seats[user]
            if seat.parked:
                gate = seat.gate or f"user:{user}"
                shelf = parked.get((lane, gate)) or self.parked_of(lane, gate)
                if len(shelf.read) <= 2 * count and (after := shelf.runs_out(2 * count + 1)) is not None:
                    self._db.expect(Query(_SQL["parked"], (*shelf.key, *after), self._count_of(shelf.pages)))
        for name, count in names.items():
            shelf = held.get(name) or self.held_of(name)
            if len(shelf.read) <= count and shelf.coming is None and sessions[name].held:
                # Mostly what is left will do for this step, and what is asked for now comes with its COMMIT.
                after = shelf.runs_out(count + 1)
                if after is not None:
                    place = (*shelf.key, *after)
                    shelf.coming = self._db.page_later(_SQL["held"], place, self._count_of(shelf.pages))

    def _prime(self, firsts: Mapping[Shelf, list[RunRow]]) -> None:
        """Hand each shelf its first runs."""
        runs = self.complete([run for found in firsts.values() for run in found])
        self._cache.count(runs)
        self._counts.fetch(runs)
        for shelf, found in firsts.items():
            found.sort(key=attrgetter("rank", "number"))
            shelf.prime(found)

    def _read_ready(self, shelf: Shelf, after: Key) -> tuple[Sequence[RunRow], bool]:
        [lane] = shelf.key
        # No more than the lane has room for (and a few that may have to be parked) can be of use.
        count = min(self.page, max(8, self._counts.lanes[lane].room()))
        rows, more = self._db.page(_SQL["ready"], (lane, *after), count)
        runs = self.complete([RunRow(*row) for row in rows])
        self._counts.fetch(runs)
        # One that came back brings its user's next one back when it is started.
        self._expect_parked(Counter((run.lane, run.user) for run in runs if run.kind & BACK and run.user is not None))
        self._sets.expect(runs)
        return runs, more

    def _read_on(self, shelf: Shelf, after: Key, page: int) -> tuple[list[RunRow], bool]:
        if shelf.coming is not None:
            (rows, more), shelf.coming = shelf.coming(), None
        else:
            rows, more = self._db.page(_SQL[shelf.table], (*shelf.key, *after), self._count_of(page))
        runs = self.complete([RunRow(*row) for row in rows])
        self._cache.count(runs)
        self._sets.expect(runs)
        return runs, more

    def _count_of(self, page: int) -> int:
        # Mostly one run is asked for; who asks for more will ask for many, and so does who has far to go.
        return int(4 ** min(page + max(page > 0, self._db.ahead), 4))
