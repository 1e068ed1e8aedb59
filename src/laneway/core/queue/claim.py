"""The claim: which pending runs may start. It keeps the books of lanes and sessions over a store's shelves.

`Flow` decides on which *shelf* of the store (`shelves`) a run is, and keeps the counts for that decision; the store
moves the records. The memory store's shelves are heaps. Those of SQLite and PostgreSQL are tables, loaded and written
inside one transaction. All three run this code. Redis restates it in Lua and is compared with it, command by command.

**Invariants** (the contract suite asserts them after every command). A run is on one shelf or leased, never both, never
twice. A user's parked set is empty, or the user is at the cap, or one of the set is in the ready order. A session with
room and without an unstarted run holds nothing back. Counts equal what they count.

A run that was set aside by its task or by a breaker is not brought back. It keeps its rank, and a claim that may start
it merges the ready order with those parked sets. So a circuit that opens or closes moves nothing, however many runs
wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from laneway.core.queue.admission import Admission
from laneway.core.queue.circuits import named
from laneway.core.queue.shelves import BREAKER, E, gate_of
from laneway.core.queue.turns import AGAIN, ASIDE, BACK, BROKEN, BROKEN_USER, LaneBook

MOST_MOVES = 500  # runs that one claim may park before it stops and returns True
GOLDEN = 0x9E3779B97F4A7C15  # 2 ** 64 divided by the golden ratio
MASK = 2**64 - 1
NO_LIMITS: Mapping[str, int] = {}


class _Claimer(NamedTuple):
    """The worker that claims, and when: the tasks it may start, and those of them that have no open circuit."""

    tasks: Set[str]
    free: Set[str]
    now: int


class Flow(Admission[E]):
    """The rules over a store's shelves and books. One object per atomic step; the memory store keeps one for good."""

    __slots__ = ()

    def with_broken(self, lanes: list[str], tasks: Set[str], now: int) -> list[str]:
        """Return these lanes, and those where runs of these tasks wait whose circuits let them start now."""
        broken = self.shelves.broken
        if not broken:
            return lanes
        claimer = _Claimer(tasks, tasks, now)
        return sorted({*lanes, *(lane for lane in broken if self._opened(lane, claimer))})

    def claim(
        self,
        lanes: Sequence[str],
        room: int,
        tasks: Set[str],
        turn: int,
        spare: Mapping[str, int] = NO_LIMITS,
        now: int = 0,
    ) -> tuple[list[E], bool]:
        """Start up to `room` runs of these lanes, of tasks that the worker knows. Park those that may not start.

        `spare` is how many runs the worker may take of lanes with a limit per worker; `tasks` leaves out paused tasks.
        Each lane first gets an equal share, beginning with another lane at each `turn`; then the rest goes to any lane
        that has more. Returns the started runs, and True if it stopped because it had parked many.
        """
        # Multiples of the golden ratio visit all lanes evenly, whatever the stride. With a plain remainder, a worker
        # that makes a call without room between any two claims would begin with the same lane each time.
        first = (turn * GOLDEN & MASK) * len(lanes) >> 64
        lanes = [*lanes[first:], *lanes[:first]]
        guarded = self.circuits.tasks
        claimer = _Claimer(tasks, tasks - guarded if guarded else tasks, now)
        started: list[E] = []
        moves = MOST_MOVES
        for index, lane in enumerate(lanes):
            share = -(-(room - len(started)) // (len(lanes) - index))
            if spare:
                share = min(share, spare.get(lane, share))
            moves = self._claim_from(lane, share, claimer, started, moves)
        for lane in lanes if len(lanes) > 1 else ():
            share = room - len(started)
            if lane in spare:
                share = min(share, spare[lane] - sum(run.lane == lane for run in started))
            moves = self._claim_from(lane, share, claimer, started, moves)
        return started, moves <= 0

    def _claim_from(self, lane: str, share: int, claimer: _Claimer, started: list[E], moves: int) -> int:
        book, free, before = self.lanes[lane], claimer.free, len(started)
        left = min(share, book.room())
        gates = self._opened(lane, claimer) if self.shelves.broken else set()
        take = self.shelves.taking(lane, claimer.tasks, gates)
        while left > 0 and moves > 0:
            run = take()
            if run is None:
                break
            if run.kind & ASIDE:
                book.set_back(run)
            kind = run.kind
            if run.task not in free and self._set_aside(book, run, claimer, gates):
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

    def _opened(self, lane: str, claimer: _Claimer) -> set[str]:
        """Return the gates of breakers in a lane that have waiting runs which may start now."""
        keys = [key for key in self.shelves.broken.get(lane, ()) if named(key)[0] in claimer.tasks]
        return {BREAKER + key for key in keys if self.circuits.get(key).lets_start(claimer.now)}

    def _set_aside(self, book: LaneBook, run: E, claimer: _Claimer, gates: set[str]) -> bool:
        """Set the run aside if the worker does not know its task, or a circuit keeps it from starting; tell if so.

        Otherwise the run is about to start: its circuits record that, and those that let no more runs start leave
        `gates`.
        """
        key = None
        if run.task in claimer.tasks:
            if book.must_park(run):
                return False
            key = self.circuits.holds(run.task, run.user, claimer.now)
            if key is None:
                gates.difference_update(BREAKER + key for key in self.circuits.start(run, claimer.now))
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
