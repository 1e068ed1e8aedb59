"""The snapshot of everything that must agree, and what `core.queue.audit` needs of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from laneway.core.queue.audit import (
    ADMITTED,
    ASKING,
    DUE,
    HELD,
    LEASE,
    OUTSIDE,
    PARKED,
    PAUSED,
    READY,
    WAITING,
    Counts,
    Key,
    Spot,
    counted,
)
from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.shelves import BREAKER, TASK
from laneway.core.queue.turns import AGAIN, FRESH, LaneBook
from laneway.core.records.states import TERMINAL, RunState
from laneway.stores.redis.codec.decode import wait_of
from laneway.stores.redis.codec.decode_counts import circuit_of, lane_book, pairs, seat_of, session_book, some, turns_of

SHELVES = (READY, PARKED, HELD, DUE)
ENDS = frozenset(state.value for state in TERMINAL)


class CheckedRun:
    """What the checks need of a run's record."""

    def __init__(self, number: int, packed: Any) -> None:
        self.number = number
        state, self.kind, shelf, self.fence = packed[2:6]
        self.task, self.lane, user, session, self.priority, self.id = packed[15:21]
        self.user, self.session, self.shelf = some(user), some(session), some(shelf)
        self.rank = 0  # the sorted set has it
        self.state, self.paused = state, state == RunState.PAUSED
        rare = packed[14] or {}
        self.wait = wait_of(rare["wait"]) if "wait" in rare else None
        self.lapsed = "lapsed" in rare


class Snapshot:
    """The reply of lua/verbs/upkeep/check.lua."""

    def __init__(self, found: Any) -> None:
        places, records, totals, self.is_deep, states, self.orphans, *books = found
        lanes, seats, caps, sessions, aside, broken, circuits, open_, working, workers, *rest = books
        busy, deadlines, *jobs = rest
        self.records = {number: CheckedRun(number, packed) if packed else None for number, packed in pairs(records)}
        self.places: list[tuple[str, str, str | None, list[int]]] = [
            (shelf, owner, some(gate), numbers) for shelf, owner, gate, numbers in places
        ]
        self.totals, self.states = dict(pairs(totals)), dict(pairs(states))
        self.lanes: dict[str, LaneBook] = {name: lane_book(name, packed) for name, packed in pairs(lanes)}
        self._fill(seats, caps)
        self.sessions = {name: session_book(packed) for name, packed in pairs(sessions)}
        self.gates = {(lane, TASK + name) for lane, name in aside} | {(lane, BREAKER + key) for lane, key in broken}
        self.circuits = {key: circuit_of(packed) for key, packed in pairs(circuits)}
        self.open, self.working, self.workers = set(open_), set(working), set(workers)
        self.busy = Counter({(worker, lane): count for worker, lane, count in busy})
        self.deadlines = {int(member): int(at) for member, at in pairs(deadlines)}
        self.jobs = {id_: at for id_, at in pairs(jobs[0]) if at is not False}  # due times by their states
        self.due_jobs = {id_: int(at) for id_, at in pairs(jobs[1])}  # and by the index

    def _fill(self, seats: Any, caps: Any) -> None:
        for lane, users in pairs(seats):
            book = self.lanes[lane]
            for user, packed in pairs(users):
                book.seats[user] = seat_of(packed)
                book.turns.update({(user, priority): turn for priority, turn in turns_of(packed)})
        for lane, user, cap in caps:
            self.lanes[lane].caps[user] = cap

    def listed(self, *shelves: str) -> Iterator[tuple[str, str, str | None, int]]:
        """Iterate over the runs in these places: shelf, owner, gate, number."""
        for shelf, owner, gate, numbers in self.places:
            if shelf in shelves:
                yield from ((shelf, owner, gate, number) for number in numbers)


def spots(snapshot: Snapshot) -> Iterator[Spot]:
    """Iterate over the places of runs that have not ended."""
    held = {number for _, _, _, number in snapshot.listed(HELD)}
    for shelf, _, gate, number in snapshot.listed(LEASE, *SHELVES, PAUSED, WAITING):
        run = snapshot.records[number]
        if run is None or run.state in ENDS or (shelf == PAUSED and number in held):
            continue
        kind = run.kind
        if shelf in (PAUSED, WAITING):
            kind = AGAIN if run.fence else FRESH
        facts = (run.lane, run.user, run.session, run.priority, run.task, kind)
        asks = shelf == WAITING and run.wait is not None and bool(run.wait.questions)
        yield Spot(shelf, ASKING if asks else gate, *facts, number, _place(snapshot.sessions, run), run.paused)


def _place(sessions: Mapping[str, SessionBook], run: CheckedRun) -> str:
    book = None if run.session is None else sessions.get(run.session)
    if book is None:
        return ""
    return ADMITTED if run.number in book.admitted else OUTSIDE if run.number in book.outside else ""


def stored(snapshot: Snapshot) -> Counts:
    """Return the stored counts."""
    found: dict[Key, int] = {}
    for name, lane in snapshot.lanes.items():
        found |= {("lane", name, "active"): lane.active, ("lane", name, "pending"): lane.pending}
        found |= {("pace", name, priority, "ready"): pace.ready for priority, pace in lane.paces.items()}
        found |= {("turn", name, *key, "waiting"): turn.waiting for key, turn in lane.turns.items()}
        for user, seat in lane.seats.items():
            found |= {("seat", name, user, what): getattr(seat, what) for what in ("active", "parked", "out")}
    for name, book in snapshot.sessions.items():
        found |= {("session", name, what): count for what, count in counted(book).items()}
    for _, owner, gate, numbers in snapshot.places:
        if gate is not None and (owner, gate) in snapshot.gates:
            what, _, rest = gate.partition(":")
            found["aside" if what == "task" else "broken", owner, rest, "runs"] = len(numbers)
    return found
