"""Which pending run may start: the book-keeping of lanes and sessions over somebody's shelves.

A store keeps runs on *shelves*, each in an order of its own:

    due      runs of the future, by due time
    held     runs of a session that wait to be admitted, by joining
    ready    runs that may start, per lane, by (rank, acceptance)
    parked   runs a claim could not start, per lane and gate, by (rank, acceptance):
             gate "user:ann" (at the cap), gate "task:x" (the claiming worker does not know the task, or it is paused),
             gate "session:x" (paused; these are brought back by number, all at once),
             gate "breaker:x" (the circuit of that key lets nothing start)

`Flow` decides which shelf a run goes to and keeps the counts that decide it; the store moves the records. The memory
store's shelves are heaps, SQLite's are tables loaded and written inside one transaction: both run this very code.
Redis and PostgreSQL restate it in Lua and SQL and are compared with it command by command.

**Invariants** (the contract asserts them after every command): a run is on one shelf or leased, never both, never
twice; a user's parked set is empty, or the user is at the cap, or one of the set is ready; a session with room and
nothing unstarted holds nobody back; counts equal what they count.

What is set aside by task or by breaker is not brought back: it keeps its rank, and a claim that may start it takes from
the ready order and from those sets merged. So a circuit that opens or closes moves nothing, however much waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from laneway.core.circuits import Circuits, key_of, named
from laneway.core.policy import Arrival
from laneway.core.sessions import SessionBook
from laneway.core.turns import (
    AGAIN,
    ASIDE,
    BACK,
    BROKEN,
    BROKEN_USER,
    FRESH,
    OUT,
    STILL,
    LaneBook,
    Ledger,
    Placed,
    Seat,
)

MOST_MOVES = 500  # runs one claim may move aside before it answers "more"
GOLDEN = 0x9E3779B97F4A7C15  # 2 ** 64 divided by the golden ratio
MASK = 2**64 - 1
NO_LIMITS: Mapping[str, int] = {}
NO_GATES: Set[str] = frozenset()
TASK, BREAKER = "task:", "breaker:"  # how gates begin


class Pending(Placed, Protocol):
    """What the flow needs to know of a run, whatever else a store keeps of it."""

    number: int
    fence: int
    task: str
    lane: str
    session: str | None

    @property
    def paused(self) -> bool:
        """Whether somebody has paused this very run."""


class Entry:
    """The least that is a `Pending`. Stores may extend it."""

    __slots__ = ("fence", "kind", "lane", "number", "paused", "priority", "rank", "session", "task", "user")

    def __init__(
        self,
        number: int,
        task: str,
        lane: str,
        user: str | None,
        session: str | None,
        priority: int,
        kind: int = FRESH,
        rank: int = 0,
    ) -> None:
        self.number, self.task, self.lane, self.user, self.session = number, task, lane, user, session
        self.priority, self.kind, self.rank, self.paused, self.fence = priority, kind, rank, False, 0


E = TypeVar("E", bound=Pending)


def gate_of(run: Pending) -> str:
    """Return the gate behind which a parked run waits."""
    if run.kind & STILL:
        return f"session:{run.session}"
    if run.kind & BROKEN:
        return BREAKER + run.task
    if run.kind & BROKEN_USER:
        return BREAKER + key_of(run.task, run.user or "")
    return TASK + run.task if run.kind & ASIDE else f"user:{run.user}"


class Shelf(StrEnum):
    """Where a pending run is kept."""

    DUE = "due"
    HELD = "held"
    READY = "ready"
    PARKED = "parked"


class Shelves(Protocol[E]):
    """Where a store keeps pending runs. Each `take` removes what it returns; the flow never looks without taking.

    `broken` are the keys of the breakers that have parked sets, per lane, or at least of those a claim could take from.
    """

    @property
    def broken(self) -> Mapping[str, Collection[str]]:
        """The keys of circuits behind which runs are parked, by lane."""

    def put_ready(self, run: E) -> None:
        """Put the run into its lane's ready order, at its rank."""

    def taking(self, lane: str, tasks: Set[str], gates: Set[str] = NO_GATES) -> Callable[[], E | None]:
        """Return what takes, call by call, the first run of the lane's ready order and these tasks' parked sets.

        `gates` are those of other parked sets to take from; one may be taken away meanwhile. While it is in use, no run
        of these tasks is parked behind its task, and none behind one of these gates.
        """

    def put_parked(self, run: E, gate: str) -> None:
        """Put the run into its lane's parked set of that gate, at its rank."""

    def take_parked(self, lane: str, gate: str) -> E:
        """Take the first run of that parked set."""

    def put_held(self, run: E, place: int) -> None:
        """Put the run behind its session, at that place."""

    def take_held(self, session: str) -> E:
        """Take the first run held by that session."""


class _Asker(NamedTuple):
    """Who claims, and when: the tasks it may start, and of them those that no breaker need be asked about."""

    tasks: Set[str]
    free: Set[str]
    now: int


class Flow(Generic[E]):
    """The rules, over a store's shelves and books. One object per atomic step (memory keeps one for good).

    `aside` collects the tasks whose runs were set aside, so that the store can wake workers that know them.
    """

    __slots__ = ("aside", "circuits", "lanes", "sessions", "shelves")

    def __init__(
        self,
        shelves: Shelves[E],
        lanes: dict[str, LaneBook],
        sessions: Ledger[str, SessionBook],
        circuits: Circuits | None = None,
    ) -> None:
        self.shelves, self.lanes, self.sessions = shelves, lanes, sessions
        self.circuits = Circuits() if circuits is None else circuits
        self.aside: set[str] = set()

    def join(self, run: E, arrival: Arrival | None = None, *, head: bool = False) -> int | None:
        """Take in a run that is due for the first time. Return how many of its session are ahead if it waits.

        At the `head` it comes before all that were never started.
        """
        if run.session is None:
            self._enter(run)
            return None
        book = self.sessions[run.session]
        if arrival is not None:
            book.take(arrival)
        if book.windows:
            book.close(run.number)
        ahead = None
        if not book.held and book.admits():
            book.admit(run.number)
            self._enter_lane(run)
        else:
            ahead = None if head else len(book.admitted) + book.held
            self.shelves.put_held(run, book.place_at_head() if head else book.place())
            self._admit(run.session, book)
        return ahead

    def rejoin(self, run: E) -> None:
        """Take back a run that was claimed before and is due again: it has kept its session place, or stepped out."""
        run.kind = AGAIN
        if run.session is not None and run.number in self.sessions[run.session].outside:
            book = self.sessions[run.session]
            self.shelves.put_held(run, book.place_in_front())
            self._admit(run.session, book)
        else:
            self._enter(run)

    def step_out(self, run: E) -> None:
        """Let others of its session pass a run that waits for its next attempt, if that is the session's rule."""
        if run.session is not None:
            book = self.sessions[run.session]
            if book.rule.pass_on_retry and run.number in book.admitted:
                book.step_out(run.number)
                self._admit(run.session, book)

    def wait(self, run: E, *, asks: bool) -> None:
        """Let a run wait that is executed no more: it keeps its session's place, unless others may pass it."""
        if run.session is not None:
            if asks:
                self.sessions[run.session].asking.append(run.number)
            self.step_out(run)

    def hear(self, run: E) -> None:
        """Count a run as waiting no more."""
        if run.session is not None:
            self.sessions[run.session].hear(run.number)

    def take_up(self, run: E, arrival: Arrival | None = None) -> None:
        """Take back a run that is due and was paused, off its shelf, where it was: in its session, or at its tail.

        `arrival` is what it says of its session if it has not joined it yet.
        """
        if run.session is None or run.number in self.sessions[run.session].admitted:
            self._enter(run)
        elif run.kind & AGAIN:
            self.rejoin(run)
        else:
            self.join(run, arrival)

    def is_admitted(self, run: E) -> bool:
        """Tell whether a run that was never started has a place in its session: it was due, whatever the clock says."""
        if run.session is None or run.kind & AGAIN:
            return False
        book = self.sessions[run.session]
        if book.idle:
            self.sessions.emptied(run.session)
        return book.unstarted == run.number

    def _admit(self, session: str, book: SessionBook) -> None:
        """Let the session's next runs go on, as far as it has room. One that is paused takes its place, and waits."""
        while book.held and book.admits():
            run = self.shelves.take_held(session)
            again = bool(run.kind & AGAIN)
            book.leave(back=again)
            if again:
                book.admit_back(run.number)
            else:
                book.admit(run.number)
            if not run.paused:
                self._enter_lane(run)

    def with_broken(self, lanes: list[str], tasks: Set[str], now: int) -> list[str]:
        """Return these lanes, and those in which runs of these tasks wait that their breakers let start by now."""
        broken = self.shelves.broken
        if not broken:
            return lanes
        asker = _Asker(tasks, tasks, now)
        return sorted({*lanes, *(lane for lane in broken if self._opened(lane, asker))})

    def claim(
        self,
        lanes: Sequence[str],
        room: int,
        tasks: Set[str],
        turn: int,
        spare: Mapping[str, int] = NO_LIMITS,
        now: int = 0,
    ) -> tuple[list[E], bool]:
        """Start up to `room` runs of these lanes, of tasks the worker knows. What may not start is parked.

        `spare` is how many the worker may take of lanes that have a limit per worker, `tasks` without those paused.
        Each lane gets an equal share first, beginning with another lane each `turn`; what is left over then goes to
        whoever has more. Returns the started runs, and True if it stopped because it had moved enough aside.
        """
        # Multiples of the golden ratio visit all lanes evenly whatever the stride: a worker that makes a call without
        # room between any two claims would meet the same lane each time if this were a remainder.
        first = (turn * GOLDEN & MASK) * len(lanes) >> 64
        lanes = [*lanes[first:], *lanes[:first]]
        guarded = self.circuits.tasks
        asker = _Asker(tasks, tasks - guarded if guarded else tasks, now)
        started: list[E] = []
        moves = MOST_MOVES
        for index, lane in enumerate(lanes):
            share = -(-(room - len(started)) // (len(lanes) - index))
            if spare:
                share = min(share, spare.get(lane, share))
            moves = self._claim_from(lane, share, asker, started, moves)
        for lane in lanes if len(lanes) > 1 else ():
            share = room - len(started)
            if lane in spare:
                share = min(share, spare[lane] - sum(run.lane == lane for run in started))
            moves = self._claim_from(lane, share, asker, started, moves)
        return started, moves <= 0

    def _claim_from(self, lane: str, share: int, asker: _Asker, started: list[E], moves: int) -> int:
        book, free = self.lanes[lane], asker.free
        goal = len(started) + min(share, book.room())
        gates = self._opened(lane, asker) if self.shelves.broken else set()
        take = self.shelves.taking(lane, asker.tasks, gates)
        while len(started) < goal and moves > 0:
            run = take()
            if run is None:
                break
            kind = run.kind
            if kind & ASIDE:
                book.set_back(run)
                kind = run.kind
            if run.task not in free and self._set_aside(book, run, asker, gates):
                moves -= 1
            elif run.user is not None and book.must_park(run):
                book.leave(run)
                self._park(book, run)
                moves -= 1
            else:
                book.start(run)
                run.kind = AGAIN
                if kind & BACK or run.session is not None:
                    self._go_on_after(book, run, kind)
                started.append(run)
        return moves

    def free(self, run: E) -> None:
        """Free the lane's and the user's slot of a run that is executed no more."""
        book = self.lanes[run.lane]
        book.active -= 1
        user = run.user
        if user is not None:
            seat = book.seats[user]
            seat.active -= 1
            if seat.parked:
                self._bring_back(book, user, seat)
            elif not seat.active and not seat.out:
                book.seats.emptied(user)

    def end(self, run: E) -> None:
        """Free the session place of a run that has ended, if it had one."""
        if run.session is not None:
            book = self.sessions[run.session]
            book.end(run.number)
            if book.windows:
                book.close(run.number)
            if book.held:
                self._admit(run.session, book)
            elif book.idle:
                self.sessions.emptied(run.session)

    def withdraw(self, run: E, shelf: Shelf) -> None:
        """Take back the counts of a pending run taken from this shelf, that ends; `end` frees its session place."""
        if shelf is Shelf.HELD:
            self.unhold(run)
        self.set_down(run, shelf)

    def unhold(self, run: E) -> None:
        """Count a run as held no more that was taken from behind its session, pending or paused."""
        assert run.session is not None
        self.sessions[run.session].leave(back=bool(run.kind & AGAIN))

    def set_down(self, run: E, shelf: Shelf) -> None:
        """Take back the lane's counts of a pending run that was taken from this shelf, or is paused where it is held.

        It keeps its session place. It comes back, if it does, as it came.
        """
        book = self.lanes[run.lane]
        book.pending -= 1
        if shelf is Shelf.READY or shelf is Shelf.PARKED:
            self._withdraw_from_lane(book, run, shelf)
        elif shelf is Shelf.DUE and run.session is not None:
            session = self.sessions[run.session]
            session.close(run.number)
            if session.idle:
                self.sessions.emptied(run.session)
        run.kind &= AGAIN

    def _withdraw_from_lane(self, book: LaneBook, run: E, shelf: Shelf) -> None:
        if run.kind & STILL:
            return
        back, user = run.kind & BACK, run.user
        if not run.kind & AGAIN:
            book.wait_no_more(run)
        if shelf is Shelf.READY:
            book.leave(run)
        if user is not None:
            seat = book.seats[user]
            if shelf is Shelf.PARKED and not run.kind & ASIDE:
                seat.parked -= 1
            if back:
                self._bring_back(book, user, seat)
            if seat.idle:
                book.seats.emptied(user)

    def keep_still(self, run: E, shelf: Shelf) -> None:
        """Hold an admitted run that was taken from this shelf of its lane: its session is paused now."""
        self._withdraw_from_lane(self.lanes[run.lane], run, shelf)
        run.kind &= AGAIN
        self._enter(run)

    def throttle(self, session: str, *, throttled: bool) -> None:
        """Lower the session to one run at a time, or not any more."""
        book = self.sessions[session]
        if book.throttled is not throttled:
            book.throttled = throttled
            self._admit(session, book)

    def let_go_on(self, session: str, still: Sequence[E]) -> None:
        """Let a session go on that is paused no more, or has more room: first those that were kept still."""
        for run in still:
            run.kind &= ~STILL
            self._enter(run)
        self._admit(session, self.sessions[session])

    def reopen(self, lane: str, users: Set[str]) -> None:
        """Bring back parked runs of these users after the lane's limits were changed."""
        book = self.lanes[lane]
        for user in sorted(users):
            self._bring_back(book, user, book.seats[user])

    def _enter(self, run: E) -> None:
        if run.session is not None and self.sessions[run.session].paused:
            run.kind = run.kind & AGAIN | STILL
            run.rank = 0
            self.shelves.put_parked(run, f"session:{run.session}")
        else:
            self._enter_lane(run)

    def _enter_lane(self, run: E) -> None:
        """Let in a run whose session, if it has one, is not paused: it has just admitted it."""
        book = self.lanes[run.lane]
        if run.user is not None and run.kind == FRESH and book.seats[run.user].parked:
            book.enter_parked(run)
            self._park(book, run)
        else:
            book.enter(run)
            self.shelves.put_ready(run)

    def _go_on_after(self, book: LaneBook, run: E, kind: int) -> None:
        """Let follow what waited for the start of this run."""
        if kind & BACK and run.user is not None:
            self._bring_back(book, run.user, book.seats[run.user])
        if run.session is not None and not kind & AGAIN:
            session = self.sessions[run.session]
            session.unstarted = 0
            if session.held and len(session.admitted) < session.limit:
                self._admit(run.session, session)

    def _opened(self, lane: str, asker: _Asker) -> set[str]:
        """Return the gates of breakers in a lane behind which runs wait that may start now."""
        keys = [key for key in self.shelves.broken.get(lane, ()) if named(key)[0] in asker.tasks]
        return {BREAKER + key for key in keys if self.circuits.get(key).lets_start(asker.now)}

    def _set_aside(self, book: LaneBook, run: E, asker: _Asker, gates: set[str]) -> bool:
        """Set the run aside if the asker does not know its task, or a breaker keeps it from starting; tell if so.

        If it goes on to be started, breakers have heard of it, and those that let no more start are none of the `gates`
        any more.
        """
        key = None
        if run.task in asker.tasks:
            if book.must_park(run):
                return False
            key = self.circuits.holds(run.task, run.user, asker.now)
            if key is None:
                gates.difference_update(BREAKER + key for key in self.circuits.start(run, asker.now))
                return False
        back = run.kind & BACK
        book.set_aside(run)
        if key is None:
            self.aside.add(run.task)
        else:
            run.kind |= BROKEN if key == run.task else BROKEN_USER
        self.shelves.put_parked(run, gate_of(run))
        if back and run.user is not None:
            self._bring_back(book, run.user, book.seats[run.user])
        return True

    def _park(self, book: LaneBook, run: E) -> None:
        user = run.user
        assert user is not None
        run.kind &= ~BACK
        seat = book.seats[user]
        seat.parked += 1
        self.shelves.put_parked(run, f"user:{user}")
        if not seat.out:
            self._bring_back(book, user, seat)

    def _bring_back(self, book: LaneBook, user: str, seat: Seat) -> None:
        """Let the first of the user's parked runs into the order, if the gate is open and none of them is there."""
        if seat.out or not seat.parked:
            return
        cap = book.cap(user) if book.caps else book.lane.per_user
        if cap is not None and seat.active >= cap:
            return
        run = self.shelves.take_parked(book.lane.name, f"user:{user}")
        seat.parked -= 1
        seat.out = OUT + run.priority
        run.kind |= BACK
        book.enter(run)
        self.shelves.put_ready(run)
