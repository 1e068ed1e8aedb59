"""The core's counts, kept in tables: loaded when a rule first asks for them, written back when the transaction ends.

Within `BEGIN IMMEDIATE` nobody else writes, so what was loaded stays true until the commit, and nothing is remembered
beyond it: the next transaction may follow one of another process. A ledger knows what each row was and writes only what
differs. *Invariant*: a row that counts nothing is not stored, so the tables are as small as what is going on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import lru_cache
from typing import TypeVar

from laneway.core.flow import Pending
from laneway.core.policy import Lane, Rule
from laneway.core.sessions import SessionBook
from laneway.core.turns import AGAIN, LaneBook, Ledger, Pace, Seat, Turn
from laneway.stores.sqlite import rosters
from laneway.stores.sqlite.rules import ruled_sessions
from laneway.stores.sqlite.statements import Row, as_json, each, insert, load

_SQL = load("ledgers")

K = TypeVar("K")
V = TypeVar("V")
TurnKey = tuple[str | None, int]  # user, priority
Load = Callable[[set[K]], Iterable[tuple[K, V]]]

# Remembered, because a lane checks itself when it is made, and there are few.
lane_of = lru_cache(maxsize=256)(Lane)


class StoredLedger(Ledger[K, V]):
    """A ledger over a table. `facts` is what of a value is stored; `idle` tells whether it counts nothing."""

    def __init__(
        self, make: Callable[[], V], read: Load[K, V], facts: Callable[[V], Row], idle: Callable[[V], bool]
    ) -> None:
        super().__init__(make)
        self._read, self._facts, self._idle = read, facts, idle
        self._was: dict[K, Row] = {}

    def __missing__(self, key: K) -> V:
        self.fetch((key,))
        return self[key]

    def fetch(self, keys: Iterable[K]) -> None:
        """Load these, those already here excepted, in one query."""
        wanted = {key for key in keys if key not in self}
        if not wanted:
            return
        for key, value in self._read(wanted):
            # A query may bring more than was asked for; what is here already may have changed since.
            if key not in self:
                self[key] = value
                self._was[key] = self._facts(value)
        for key in wanted:
            if key not in self:
                self[key] = self.made(key)

    def made(self, key: K) -> V:
        """Return what is not stored."""
        return self._make()

    def emptied(self, key: K) -> None:
        """Begin anew, as if it had been deleted: the row goes when the transaction ends, if it is still idle then."""
        self[key] = self.made(key)

    def changes(self) -> tuple[list[tuple[K, Row]], list[K]]:
        """Return what must be written, and what must be deleted."""
        written: list[tuple[K, Row]] = []
        gone: list[K] = []
        known, facts_of, idle = self._was, self._facts, self._idle
        for key, value in self.items():
            facts, was = facts_of(value), known.get(key)
            if facts == was:
                continue
            if not idle(value):
                written.append((key, facts))
            elif was is not None:
                gone.append(key)
        return written, gone


class LaneBooks(dict[str, LaneBook]):
    """The books of the lanes that were asked for. `capped`: some users have caps of their own, or are paused."""

    def __init__(self, db: sqlite3.Connection, *, capped: bool = True) -> None:
        super().__init__()
        self._db, self._capped = db, capped
        self._was: dict[str, tuple[Row, dict[int, Row]]] = {}
        self._unknown: set[str] = set()
        self._turns: dict[str, StoredLedger[TurnKey, Turn]] = {}
        self._seats: dict[str, StoredLedger[str, Seat]] = {}

    def __missing__(self, name: str) -> LaneBook:
        rows = self._db.execute(_SQL["lane"], (name,)).fetchall()
        if not rows:
            self._unknown.add(name)
            raise KeyError(name)
        *limits, active, pending, paused, _, _, _ = rows[0]
        paces = {priority: Pace(v, ready) for *_, priority, v, ready in rows if priority is not None}
        turns, seats = self._turns[name], self._seats[name] = self._new_turns(name), self._new_seats(name)
        lane = lane_of(name, *limits)
        book = self[name] = LaneBook(lane, paces, turns, seats, active, pending, paused=bool(paused))
        self._was[name] = (active, pending), {priority: (pace.v, pace.ready) for priority, pace in paces.items()}
        return book

    def fetch(self, users: Mapping[str, Set[str]], turns: Mapping[str, Set[TurnKey]]) -> None:
        """Load these seats and turns, by lane."""
        for lane, names in users.items():
            self[lane]
            self._seats[lane].fetch(names)
        for lane, keys in turns.items():
            self[lane]
            self._turns[lane].fetch(keys)

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
        stored = {name for (name,) in self._db.execute(_SQL["ready_lanes"]) if name not in self}
        return stored | {name for name, book in self.items() if book.ready()}

    def startable(self) -> bool:
        """Tell whether anything can start in a lane that this transaction has touched."""
        return any(book.room() > 0 and book.ready() for book in self.values())

    def users_parked(self, name: str) -> set[str]:
        """Return the users of a lane who have parked runs, as the transaction found them."""
        return {user for (user,) in self._db.execute(_SQL["parked_users"], (name,))}

    def write(self) -> None:
        """Write back what changed."""
        db = self._db
        runs, paces = self._counts()
        each(db, _SQL["set_runs"], runs)
        insert(db, _SQL["set_pace"], paces)
        for name in self:
            written, gone = self._turns[name].changes()
            insert(db, _SQL["set_turn"], [(name, user or "", *rest, *facts) for (user, *rest), facts in written])
            each(db, _SQL["drop_turn"], [(name, user or "", priority) for user, priority in gone])
            seats, left = self._seats[name].changes()
            insert(db, _SQL["set_seat"], [(name, user, *facts) for user, facts in seats])
            each(db, _SQL["drop_seat"], [(name, user) for user in left])

    def _counts(self) -> tuple[list[Row], list[Row]]:
        runs: list[Row] = []
        paces: list[Row] = []
        for name, book in self.items():
            was_runs, was_paces = self._was[name]
            if was_runs != (book.active, book.pending):
                runs.append((book.active, book.pending, name))
            for priority, pace in book.paces.items():
                if was_paces.get(priority) != (pace.v, pace.ready):
                    paces.append((name, priority, pace.v, pace.ready))
        return runs, paces

    def _new_turns(self, lane: str) -> StoredLedger[TurnKey, Turn]:
        def read(keys: set[TurnKey]) -> Iterable[tuple[TurnKey, Turn]]:
            users = as_json({user or "" for user, _ in keys})
            for user, priority, last, waiting in self._db.execute(_SQL["turns"], (lane, users)):
                yield (user or None, priority), Turn(last, waiting)

        return StoredLedger(Turn, read, lambda turn: (turn.last, turn.waiting), lambda turn: not turn.waiting)

    def _new_seats(self, lane: str) -> StoredLedger[str, Seat]:
        def read(users: set[str]) -> Iterable[tuple[str, Seat]]:
            wanted = (lane, as_json(users))
            if self._capped:
                # Nobody is asked about whose seat was not read.
                self[lane].caps.update(self._db.execute(_SQL["caps"], wanted).fetchall())
            for user, *counts in self._db.execute(_SQL["seats"], wanted):
                yield user, Seat(*counts)

        return StoredLedger(Seat, read, _seat_facts, lambda seat: not (seat.active or seat.parked or seat.out))


class SessionBooks(StoredLedger[str, SessionBook]):
    """The books of the sessions that were asked for. `ruled`: operators may have set something of sessions."""

    def __init__(self, db: sqlite3.Connection, *, ruled: bool = True) -> None:
        super().__init__(SessionBook, self._stored, rosters.facts, lambda book: book.idle)
        self._db, self._ask = db, ruled
        self._ruled: dict[str, tuple[Rule, bool]] = {}

    def made(self, key: str) -> SessionBook:
        """Return an idle session."""
        return self._as_ruled(key, SessionBook())

    def write(self) -> None:
        """Write back what changed."""
        written, gone = self.changes()
        insert(self._db, _SQL["set_session"], [(name, *facts) for name, facts in written])
        each(self._db, _SQL["drop_session"], [(name,) for name in gone])

    def _stored(self, names: set[str]) -> Iterable[tuple[str, SessionBook]]:
        if self._ask:
            self._ruled |= ruled_sessions(self._db, names)
        for name, *row in self._db.execute(_SQL["sessions"], (as_json(names),)):
            yield name, self._as_ruled(name, rosters.opened(*row))

    def _as_ruled(self, name: str, book: SessionBook) -> SessionBook:
        if name in self._ruled:
            rule, paused = self._ruled[name]
            rosters.ruled(book, rule, paused=paused)
        return book


class Books:
    """All counts of one transaction."""

    def __init__(self, db: sqlite3.Connection, *, capped: bool = True, ruled: bool = True) -> None:
        self._db = db
        self.lanes = LaneBooks(db, capped=capped)
        self.sessions = SessionBooks(db, ruled=ruled)

    def fetch(self, runs: Collection[Pending]) -> None:
        """Load what the rules will ask about these runs, in one query per table and lane instead of one per run."""
        users: dict[str, set[str]] = {}
        turns: dict[str, set[TurnKey]] = {}
        sessions = set[str]()
        for run in runs:
            user, session = run.user, run.session
            if user is not None:
                users.setdefault(run.lane, set()).add(user)
            if not run.kind & AGAIN:
                turns.setdefault(run.lane, set()).add((user, run.priority))
            if session is not None:
                sessions.add(session)
        self.lanes.fetch(users, turns)
        self.sessions.fetch(sessions)

    def write(self) -> None:
        """Write back what changed."""
        self.lanes.write()
        self.sessions.write()


def _seat_facts(seat: Seat) -> Row:
    return seat.active, seat.parked, seat.out
