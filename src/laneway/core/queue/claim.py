"""Which pending run may start: the book-keeping of lanes and sessions over somebody's shelves.

`Flow` decides on which of a store's *shelves* (`shelves`) a run is, and keeps the counts that decide it; the store
moves the records. The memory store's shelves are heaps, those of SQLite and PostgreSQL are tables loaded and written
inside one transaction: all three run this very code. Redis restates it in Lua and is compared with it, command by
command.

**Invariants** (the contract asserts them after every command): a run is on one shelf or leased, never both, never
twice; a user's parked set is empty, or the user is at the cap, or one of the set is ready; a session with room and
nothing unstarted holds nobody back; counts equal what they count.

What is set aside by task or by breaker is not brought back: it keeps its rank, and a claim that may start it takes from
the ready order and from those sets merged. So a circuit that opens or closes moves nothing, however much waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from laneway.core.queue.admission import Entering
from laneway.core.queue.circuits import named
from laneway.core.queue.shelves import BREAKER, E, gate_of
from laneway.core.queue.turns import AGAIN, ASIDE, BACK, BROKEN, BROKEN_USER, LaneBook

MOST_MOVES = 500  # runs one claim may move aside before it answers "more"
GOLDEN = 0x9E3779B97F4A7C15  # 2 ** 64 divided by the golden ratio
MASK = 2**64 - 1
NO_LIMITS: Mapping[str, int] = {}


class _Asker(NamedTuple):
    """Who claims, and when: the tasks it may start, and of them those that no breaker need be asked about."""

    tasks: Set[str]
    free: Set[str]
    now: int


class Flow(Entering[E]):
    """The rules, over a store's shelves and books. One object per atomic step (memory keeps one for good)."""

    __slots__ = ()

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
        book, free, before = self.lanes[lane], asker.free, len(started)
        left = min(share, book.room())
        gates = self._opened(lane, asker) if self.shelves.broken else set()
        take = self.shelves.taking(lane, asker.tasks, gates)
        while left > 0 and moves > 0:
            run = take()
            if run is None:
                break
            if run.kind & ASIDE:
                book.set_back(run)
            kind = run.kind
            if run.task not in free and self._set_aside(book, run, asker, gates):
                moves -= 1
            elif book.start(run):
                run.kind = AGAIN
                if kind & BACK and run.user is not None:
                    self._bring_back(book, run.user, book.seats[run.user])
                if run.session is not None and not kind & AGAIN:
                    session = self.sessions[run.session]
                    session.unstarted = 0
                    self._admit(run.session, session)
                started.append(run)
                left -= 1
            else:
                book.leave(run)
                self._park(book, run)
                moves -= 1
        book.begin(len(started) - before)
        return moves

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
