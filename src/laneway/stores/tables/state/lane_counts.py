"""The books of lanes, kept in tables: their counts, their users' turns and seats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache, partial

from laneway.core.queue.turns import LaneBook, VirtualTime
from laneway.core.records.policy import Lane
from laneway.stores.tables.runtime.step_cache import StepCache, TurnKey
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import Row, sql_names
from laneway.stores.tables.state.user_counts import SeatLedger, TurnLedger, turn_query

_SQL = sql_names("counts")

# Remembered, because a lane checks itself when it is made, and there are few.
lane_of = lru_cache(maxsize=256)(Lane)


class LaneCounts(dict[str, LaneBook]):
    """The books of the lanes that were asked for. `capped`: some users have caps of their own, or are paused."""

    def __init__(self, db: Database, cache: StepCache, *, capped: bool = True) -> None:
        super().__init__()
        self._db, self._cache, self._capped = db, cache, capped
        self._was: dict[str, tuple[Row, dict[int, Row]]] = {}
        self._unknown: set[str] = set()
        self._turns: dict[str, TurnLedger] = {}
        self._seats: dict[str, SeatLedger] = {}

    def __missing__(self, name: str) -> LaneBook:
        turns, seats = self._turns_of(name), self._seats_of(name)
        if name in self._cache.lanes:
            book, self._was[name] = self._cache.lanes[name]
            book.turns, book.seats = turns, seats
            self[name] = book
            return book
        rows = self._db.execute(_SQL["lane"], (name,)).fetchall()
        if not rows:
            self._unknown.add(name)
            raise KeyError(name)
        *limits, active, pending, paused, _, _, _ = rows[0]
        paces = {priority: VirtualTime(v, ready) for *_, priority, v, ready in rows if priority is not None}
        lane = lane_of(name, *limits)
        book = self[name] = LaneBook(lane, paces, turns, seats, active, pending, paused=bool(paused))
        book.caps = seats.caps
        self._was[name] = _counts(book)
        return book

    def fetch(self, users: Mapping[str, Set[str]], turns: Mapping[str, Set[TurnKey]]) -> None:
        """Load these seats and turns, by lane."""
        for load in self.ask(users, turns):
            load()

    def ask(self, users: Mapping[str, Set[str]], turns: Mapping[str, Set[TurnKey]]) -> Sequence[Callable[[], None]]:
        """Ask for these seats and turns, by lane; return what loads them."""
        lanes = users.keys() | turns.keys()
        self._db.expect(*(Query(_SQL["lane"], (name,)) for name in lanes if not self._is_open(name)))
        return [
            *(self._seats_of(lane).ask(names) for lane, names in users.items()),
            *(self._turns_of(lane).ask(keys) for lane, keys in turns.items()),
            *(partial(self._open, lane) for lane in lanes),
        ]

    def touch(self, users: Iterable[tuple[str, str]]) -> None:
        """Have at hand what is known of the seats of these users, by lane."""
        names: dict[str, list[str]] = {}
        for lane, user in users:
            names.setdefault(lane, []).append(user)
        for lane, of_lane in names.items():
            self._seats_of(lane).touch(of_lane)

    def knows(self, name: str) -> bool:
        """Tell whether there is such a lane."""
        if name not in self and name not in self._unknown:
            try:
                self[name]
            except KeyError:
                return False
        return name in self

    def with_ready(self) -> set[str]:
        """Return the lanes that have startable runs, as they stand now in this transaction."""
        cache = self._cache
        if cache.unopened is None:
            ready = {name for (name,) in self._db.execute(_SQL["ready_lanes"])}
            cache.unopened = ready - self.keys() - cache.lanes.keys()
        cache.unopened.difference_update(self, cache.lanes)  # a claim may have opened them, and left nothing there
        closed = {name for name, (book, _) in cache.lanes.items() if name not in self and book.ready()}
        return cache.unopened | closed | {name for name, book in self.items() if book.ready()}

    def had_ready(self, name: str) -> bool:
        """Tell whether a lane had startable runs when the transaction began."""
        if name not in self:
            self[name]
        _, paces = self._was[name]
        return any(ready for _, ready in paces.values())

    def startable(self) -> bool:
        """Tell whether anything can start in a lane that this transaction has touched."""
        return any(book.room() > 0 and book.ready() for book in self.values())

    def users_parked(self, name: str) -> set[str]:
        """Return the users of a lane who have parked runs, as the transaction found them."""
        return {user for (user,) in self._db.execute(_SQL["parked_users"], (name,))}

    def write(self) -> None:
        """Write back what changed."""
        db = self._db
        runs, paces = self._changes()
        db.each(_SQL["set_runs"], runs)
        db.insert(_SQL["set_pace"], paces)
        for name in self:
            self._turns[name].write()
            self._seats[name].write()

    def _changes(self) -> tuple[list[Row], list[Row]]:
        runs: list[Row] = []
        paces: list[Row] = []
        for name, book in self.items():
            (was_runs, was_paces), (now_runs, now_paces) = self._was[name], _counts(book)
            if now_runs != was_runs:
                runs.append((*now_runs, name))
            for priority, pace in now_paces.items():
                if was_paces.get(priority) != pace:
                    paces.append((name, priority, *pace))
            self._cache.lanes[name] = book, (now_runs, now_paces)
        return runs, paces

    def _open(self, name: str) -> None:
        self[name]

    def _is_open(self, name: str) -> bool:
        return name in self or name in self._cache.lanes

    def _turns_of(self, lane: str) -> TurnLedger:
        if lane not in self._turns:
            self._turns[lane] = TurnLedger(self._db, self._cache, lane)
        return self._turns[lane]

    def _seats_of(self, lane: str) -> SeatLedger:
        if lane not in self._seats:
            known = self._cache.lanes.get(lane)
            caps = {} if known is None else known[0].caps
            self._seats[lane] = SeatLedger(self._db, self._cache, lane, caps, capped=self._capped)
        return self._seats[lane]


def lane_queries(name: str) -> Sequence[Query]:
    """Return what is asked first about a lane: of itself, and of the turn of runs without a user."""
    return Query(_SQL["lane"], (name,)), turn_query(name, {""})


def _counts(book: LaneBook) -> tuple[Row, dict[int, Row]]:
    return (book.active, book.pending), {priority: (pace.v, pace.ready) for priority, pace in book.paces.items()}
