"""The core's counts, kept in tables: loaded when a rule first asks for them, written back when the transaction ends.

Within `BEGIN IMMEDIATE` nobody else writes, so what was loaded stays true until the commit; whether it does beyond that
is `remembering`'s business. A ledger knows what each row was and writes only what differs. *Invariant*: a row that
counts nothing is not stored, so the tables are as small as what is going on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import TypeVar

from laneway.core.policy import NO_RULE, Lane, Rule
from laneway.core.sessions import SessionBook
from laneway.core.shelves import Pending
from laneway.core.turns import AGAIN, LaneBook, Ledger, Pace, Seat, Turn
from laneway.stores.tables import rosters
from laneway.stores.tables.database import Database, Question
from laneway.stores.tables.remembering import Known, Memory, TurnKey
from laneway.stores.tables.rules import ruled_sessions
from laneway.stores.tables.statements import Row, as_json, sql_names

_SQL = sql_names("ledgers")

K = TypeVar("K")
V = TypeVar("V")
Load = Callable[[set[K]], Callable[[], Iterable[tuple[K, V, Row]]]]  # asks, and returns what reads the answers

# Remembered, because a lane checks itself when it is made, and there are few.
lane_of = lru_cache(maxsize=256)(Lane)


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


class LaneBooks(dict[str, LaneBook]):
    """The books of the lanes that were asked for. `capped`: some users have caps of their own, or are paused."""

    def __init__(self, db: Database, memory: Memory, *, capped: bool = True) -> None:
        super().__init__()
        self._db, self._memory, self._capped = db, memory, capped
        self._was: dict[str, tuple[Row, dict[int, Row]]] = {}
        self._unknown: set[str] = set()
        self._turns: dict[str, StoredLedger[TurnKey, Turn]] = {}
        self._seats: dict[str, StoredLedger[str, Seat]] = {}

    def __missing__(self, name: str) -> LaneBook:
        turns, seats = self._turns_of(name), self._seats_of(name)
        if name in self._memory.lanes:
            book, self._was[name] = self._memory.lanes[name]
            book.turns, book.seats = turns, seats
            self[name] = book
            return book
        rows = self._db.execute(_SQL["lane"], (name,)).fetchall()
        if not rows:
            self._unknown.add(name)
            raise KeyError(name)
        *limits, active, pending, paused, _, _, _ = rows[0]
        paces = {priority: Pace(v, ready) for *_, priority, v, ready in rows if priority is not None}
        lane = lane_of(name, *limits)
        book = self[name] = LaneBook(lane, paces, turns, seats, active, pending, paused=bool(paused))
        self._was[name] = _counts(book)
        return book

    def fetch(self, users: Mapping[str, Set[str]], turns: Mapping[str, Set[TurnKey]]) -> None:
        """Load these seats and turns, by lane."""
        for load in self.ask(users, turns):
            load()

    def ask(self, users: Mapping[str, Set[str]], turns: Mapping[str, Set[TurnKey]]) -> Sequence[Callable[[], None]]:
        """Ask for these seats and turns, by lane; return what loads them."""
        lanes = users.keys() | turns.keys()
        self._db.expect(*(Question(_SQL["lane"], (name,)) for name in lanes if not self._is_open(name)))
        return [
            *(self._seats_of(lane).ask(names) for lane, names in users.items()),
            *(self._turns_of(lane).ask(keys) for lane, keys in turns.items()),
            *(partial(self._open, lane) for lane in lanes),
        ]

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
        memory = self._memory
        if memory.unopened is None:
            ready = {name for (name,) in self._db.execute(_SQL["ready_lanes"])}
            memory.unopened = ready - self.keys() - memory.lanes.keys()
        memory.unopened -= self.keys()
        closed = {name for name, (book, _) in memory.lanes.items() if name not in self and book.ready()}
        return memory.unopened | closed | {name for name, book in self.items() if book.ready()}

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
            turns, changed, gone = self._turns[name].changes()
            db.insert(_SQL["set_turn"], turns, changed)
            db.each(_SQL["drop_turn"], [(name, user, priority) for user, priority in gone if user is not None])
            db.each(_SQL["rest_turn"], [(name, priority) for user, priority in gone if user is None])
            seats, others, left = self._seats[name].changes()
            db.insert(_SQL["set_seat"], seats, others)
            db.each(_SQL["drop_seat"], [(name, user) for user in left])

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
            self._memory.lanes[name] = book, (now_runs, now_paces)
        return runs, paces

    def _open(self, name: str) -> None:
        self[name]

    def _is_open(self, name: str) -> bool:
        return name in self or name in self._memory.lanes

    def _turns_of(self, lane: str) -> StoredLedger[TurnKey, Turn]:
        if lane not in self._turns:
            self._turns[lane] = self._new_turns(lane)
        return self._turns[lane]

    def _seats_of(self, lane: str) -> StoredLedger[str, Seat]:
        if lane not in self._seats:
            self._seats[lane] = self._new_seats(lane)
        return self._seats[lane]

    def _new_turns(self, lane: str) -> StoredLedger[TurnKey, Turn]:
        def read(keys: set[TurnKey]) -> Callable[[], Iterator[tuple[TurnKey, Turn, Row]]]:
            self._memory.rows += len(keys)
            asked = _turns(lane, {user or "" for user, _ in keys})
            turns = self._db.execute(asked.name, asked.values)

            def rows() -> Iterator[tuple[TurnKey, Turn, Row]]:
                for user, priority, last, waiting in turns:
                    yield (user or None, priority), Turn(last, waiting), (lane, user, priority, last, waiting)

            return rows

        def row_of(key: TurnKey, turn: Turn) -> Row | None:
            return (lane, key[0] or "", key[1], turn.last, turn.waiting) if turn.waiting else None

        return StoredLedger(Turn, read, row_of, self._memory.turns.setdefault(lane, Known()))

    def _new_seats(self, lane: str) -> StoredLedger[str, Seat]:
        def read(users: set[str]) -> Callable[[], Iterator[tuple[str, Seat, Row]]]:
            wanted = (lane, as_json(users))
            self._memory.rows += len(users)
            # Nobody is asked about whose seat was not read.
            caps = self._db.execute(_SQL["caps"], wanted) if self._capped else ()
            seats = self._db.execute(_SQL["seats"], wanted)

            def rows() -> Iterator[tuple[str, Seat, Row]]:
                self[lane].caps.update(caps)
                for user, *counts in seats:
                    yield user, Seat(*counts), (lane, user, *counts)

            return rows

        def row_of(user: str, seat: Seat) -> Row | None:
            active, parked, out = seat.active, seat.parked, seat.out
            return (lane, user, active, parked, out) if active or parked or out else None

        return StoredLedger(Seat, read, row_of, self._memory.seats.setdefault(lane, Known()))


class SessionBooks(StoredLedger[str, SessionBook]):
    """The books of the sessions that were asked for. `ruled`: operators may have set something of sessions.

    The last column of a session's row is the place that it has `passed`: the rows of what it held at a place from 1 to
    there are of runs that it has let in, and will be deleted together. *Invariant*: a session that holds nothing has
    no such rows, because without its row they would be taken for what is held.
    """

    def __init__(self, db: Database, memory: Memory | None = None, *, ruled: bool = True) -> None:
        self._memory = memory or Memory()
        super().__init__(SessionBook, self._stored, rosters.row_of, self._memory.sessions)
        self._db, self._ask = db, ruled
        self._ruled: dict[str, tuple[Rule, bool]] = {}
        self.started: Set[int] = frozenset()  # the runs that this transaction has leased
        self.passing: dict[str, int] = {}  # what this transaction has changed of `passed`: 0 once the rows are deleted

    def made(self, key: str) -> SessionBook:
        """Return an idle session."""
        return self._as_ruled(key, SessionBook())

    def emptied(self, key: str) -> None:
        """Begin anew, with what operators have set; its places count from 1 again."""
        self._tidy(key)
        was, book, row = self[key], SessionBook(), self._rows.get(key)
        if row is not None and row[-1]:
            # What is held from now on may be looked for in the tables before the session's row is written.
            self._db.execute(_SQL["pass_nothing"], (key,))
        if was.paused or was.ruled != NO_RULE:
            rosters.ruled(book, was.ruled, paused=was.paused)
        self[key] = self._known[key] = book

    def changes(self) -> tuple[list[Row], list[Row], list[str]]:
        """Return the rows that are new, those that must be written over, and the names of those that must be deleted.

        Of a session of which nothing has changed but that its unstarted run was started, the lease tells: who reads the
        session looks whether that run has been started since.
        """
        new: list[Row] = []
        changed: list[Row] = []
        gone: list[str] = []
        rows, started, passing = self._rows, self.started, self.passing
        for name, book in self.items():
            was = rows.get(name)
            passed = passing.get(name, 0 if was is None else was[-1])
            if passed and not book.held:
                passed = self._tidy(name)
            row = rosters.row_of(name, book, passed)
            if row is None:
                if was is not None:
                    gone.append(name)
                    del rows[name]
            elif row != was:
                rows[name] = row
                if was is None:
                    new.append(row)
                elif was[2] not in started or row != (*was[:2], 0, *was[3:]):
                    changed.append(row)
        return new, changed, gone

    def write(self) -> None:
        """Write back what changed."""
        new, changed, gone = self.changes()
        new.sort()  # by name, as they stand in the table
        changed.sort()
        self._db.insert(_SQL["set_session"], new, changed)
        self._db.each(_SQL["drop_session"], [(name,) for name in gone])
        self.passing.clear()

    def passed(self, name: str) -> int:
        """Return the place that a session has passed."""
        self[name]  # its row is read
        row = self._rows.get(name)
        return self.passing.get(name, 0 if row is None else row[-1])

    def _tidy(self, name: str) -> int:
        """Delete the rows of what a session has let in; return what it has passed then."""
        if passed := self.passed(name):
            self._db.execute(_SQL["drop_passed"], (name, passed))
            self.passing[name] = 0
        return 0

    def _stored(self, names: set[str]) -> Callable[[], Iterator[tuple[str, SessionBook, Row]]]:
        self._memory.rows += len(names)
        sessions = self._db.execute(_SQL["sessions"], (as_json(names),))

        def rows() -> Iterator[tuple[str, SessionBook, Row]]:
            if self._ask:
                self._ruled |= ruled_sessions(self._db, names)
            for row in sessions:
                name = row[0]
                yield name, self._as_ruled(name, rosters.opened(*row[1:-1])), row

        return rows

    def _as_ruled(self, name: str, book: SessionBook) -> SessionBook:
        if name in self._ruled:
            rule, paused = self._ruled[name]
            rosters.ruled(book, rule, paused=paused)
        return book


class Books:
    """All counts of one transaction."""

    def __init__(self, db: Database, memory: Memory | None = None, *, capped: bool = True, ruled: bool = True) -> None:
        memory = memory or Memory()
        self.lanes = LaneBooks(db, memory, capped=capped)
        self.sessions = SessionBooks(db, memory, ruled=ruled)

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
        for load in (*self.lanes.ask(users, turns), self.sessions.ask(sessions)):
            load()

    def write(self) -> None:
        """Write back what changed."""
        self.lanes.write()
        self.sessions.write()


def about_lane(name: str) -> Sequence[Question]:
    """Return what is asked first about a lane: of itself, and of the turn of runs without a user."""
    return Question(_SQL["lane"], (name,)), _turns(name, {""})


def _turns(lane: str, users: set[str]) -> Question:
    return Question(_SQL["turns"], (lane, as_json(users)))


def _loaded() -> None:
    """There is nothing to load."""


def _counts(book: LaneBook) -> tuple[Row, dict[int, Row]]:
    return (book.active, book.pending), {priority: (pace.v, pace.ready) for priority, pace in book.paces.items()}
