"""The counts of lanes, in tables: active and pending runs, virtual times, turns and seats of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import NamedTuple

from laneway.core.queue.turns import LaneBook, VirtualTime
from laneway.core.records.policy import Lane
from laneway.stores.tables.sql.database import Database, Query
from laneway.stores.tables.sql.statements import Row, sql_names
from laneway.stores.tables.state.user_counts import SeatLedger, TurnKey, TurnLedger

_SQL = sql_names("counts")

# Cached: a lane is validated when it is made, and there are few.
lane_of = lru_cache(maxsize=256)(Lane)


class _Stored(NamedTuple):
    """A lane and its counts as the tables have them. `times` are virtual time and ready runs by priority."""

    lane: Lane
    paused: bool
    active: int
    pending: int
    times: dict[int, tuple[int, int]]


class LaneCounts(dict[str, LaneBook]):
    """The `LaneBook`s of the lanes in use, by name. `capped`: some users have caps of their own, or are paused."""

    def __init__(self, db: Database, *, capped: bool = True) -> None:
        super().__init__()
        self._db, self._capped = db, capped
        self._was: dict[str, _Stored] = {}
        self._unknown: set[str] = set()
        self._turns: dict[str, TurnLedger] = {}
        self._seats: dict[str, SeatLedger] = {}

    def __missing__(self, name: str) -> LaneBook:
        was = self._was[name] = self._read(name)
        turns, seats = self._turns_of(name), self._seats_of(name)
        paces = {priority: VirtualTime(v, ready) for priority, (v, ready) in was.times.items()}
        book = self[name] = LaneBook(was.lane, paces, turns, seats, was.active, was.pending, paused=was.paused)
        book.caps = seats.caps
        return book

    def _read(self, name: str) -> _Stored:
        rows = self._db.execute(_SQL["lane"], (name,)).fetchall()
        if not rows:
            self._unknown.add(name)
            raise KeyError(name)
        *limits, active, pending, paused, _, _, _ = rows[0]
        times = {priority: (v, ready) for *_, priority, v, ready in rows if priority is not None}
        return _Stored(lane_of(name, *limits), bool(paused), active, pending, times)

    def fetch(self, users: Mapping[str, Set[str]], turns: Mapping[str, Set[TurnKey]]) -> None:
        """Load these seats and turns, given by lane."""
        for load in self.send_query(users, turns):
            load()

    def send_query(
        self, users: Mapping[str, Set[str]], turns: Mapping[str, Set[TurnKey]]
    ) -> Sequence[Callable[[], None]]:
        """Send the queries for these seats and turns, given by lane; return functions that load the results."""
        lanes = users.keys() | turns.keys()
        self._db.expect(*(lane_query(name) for name in lanes if name not in self))
        return [
            *(self._seats_of(lane).send_query(names) for lane, names in users.items()),
            *(self._turns_of(lane).send_query(keys) for lane, keys in turns.items()),
            *(partial(self._open, lane) for lane in lanes),
        ]

    def knows(self, name: str) -> bool:
        """Return whether there is such a lane."""
        if name not in self and name not in self._unknown:
            try:
                self[name]
            except KeyError:
                return False
        return name in self

    def with_ready(self) -> set[str]:
        """Return the lanes that have startable runs, as they stand now in this transaction."""
        stored = {name for (name,) in self._db.execute(_SQL["ready_lanes"])}
        return (stored - self.keys()) | {name for name, book in self.items() if book.ready()}

    def had_ready(self, name: str) -> bool:
        """Return whether a lane had startable runs when the transaction began."""
        if name not in self:
            self[name]
        return any(ready for _, ready in self._was[name].times.values())

    def startable(self) -> bool:
        """Return whether a run can start in a lane that this transaction has used."""
        return any(book.room() > 0 and book.ready() for book in self.values())

    def users_parked(self, name: str) -> set[str]:
        """Return the users of a lane that had parked runs when the transaction began."""
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
            was, times = self._was[name], {priority: (pace.v, pace.ready) for priority, pace in book.paces.items()}
            if (book.active, book.pending) != (was.active, was.pending):
                runs.append((book.active, book.pending, name))
            paces += [(name, priority, *now) for priority, now in times.items() if was.times.get(priority) != now]
        return runs, paces

    def _open(self, name: str) -> None:
        self[name]

    def _turns_of(self, lane: str) -> TurnLedger:
        if lane not in self._turns:
            self._turns[lane] = TurnLedger(self._db, lane)
        return self._turns[lane]

    def _seats_of(self, lane: str) -> SeatLedger:
        if lane not in self._seats:
            self._seats[lane] = SeatLedger(self._db, lane, capped=self._capped)
        return self._seats[lane]


def lane_query(name: str) -> Query:
    """Return the first queries about a lane."""
    return Query(_SQL["lane"], (name,))
