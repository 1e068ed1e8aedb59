"""The state of the memory store, and the few operations that all its parts share."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from laneway.core.common.keys import KeyEntry
from laneway.core.queue.circuits import FOREVER, Circuits
from laneway.core.queue.claim import Flow
from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.turns import LaneBook, Ledger, Seat, Turns
from laneway.core.records.breakers import CLOSED
from laneway.core.records.events import Draft
from laneway.core.records.policy import DEFAULT_LANES, NO_RULE, Lane, Rule
from laneway.core.transfer.move_state import Moving
from laneway.errors import UnknownLane, UnknownRun
from laneway.ports.clock import Clock
from laneway.stores.memory.state.heaps import Heaps
from laneway.stores.memory.state.job_records import JobRecords
from laneway.stores.memory.state.records import EventBatch, RunRecord
from laneway.stores.memory.state.workers import WorkerRecord

KeyOf = tuple[str, str | None, str]  # task, user, key


class Clearable(Protocol):
    """Something that can be emptied."""

    def clear(self) -> None:
        """Empty it."""


class MemoryState:
    """Records, shelves, books, and settings of operators. The store has its lock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.moving: Moving | None = None  # its part in a move
        self.accepted = 0  # the newest acceptance number
        self.records: list[RunRecord] = []  # by acceptance number, with gaps where runs were pruned
        self.by_id: dict[str, RunRecord] = {}
        self.takers: dict[str, RunRecord] = {}  # by the ids of the messages they took
        self.keys: dict[KeyOf, KeyEntry] = {}
        self.workers: dict[str, WorkerRecord] = {}
        self.lanes: dict[str, LaneBook] = {}
        self.declared: dict[str, Lane] = {}
        self.ruled_lanes: dict[str, Lane] = {}
        self.caps: dict[tuple[str, str], int] = {}  # by user and lane
        self.paused_users: set[str] = set()
        self.paused_tasks: set[str] = set()
        self.disabled_tasks: set[str] = set()
        self.ruled_sessions: dict[str, Rule] = {}
        self.paused_sessions: set[str] = set()
        self.counts: Counter[tuple[str, str]] = Counter()  # by lane: what became of submissions and runs
        self.transient: set[RunRecord] = set()  # the runs with deltas in their logs
        self.said = False  # events were written and watchers are not notified yet
        self.jobs = JobRecords()
        self.sessions = SessionBooks(self)
        self.heaps = Heaps()
        self.circuits = Circuits()
        self.flow: Flow[RunRecord] = Flow(self.heaps, self.lanes, self.sessions, self.circuits)
        self.put_lanes(DEFAULT_LANES)

    def clear(self) -> None:
        """Delete everything but the part in a move."""
        self.accepted, self.records = 0, []
        kept: tuple[Clearable, ...] = (
            *(self.by_id, self.takers, self.keys, self.workers, self.lanes, self.declared, self.ruled_lanes),
            *(self.caps, self.ruled_sessions, self.counts, self.sessions, self.transient, self.jobs, self.heaps),
            *(self.paused_users, self.paused_tasks, self.disabled_tasks, self.paused_sessions),
        )
        for things in kept:
            things.clear()
        for key in list(self.circuits.keys):
            self.circuits.put(key, CLOSED)

    def known(self, run_id: str) -> RunRecord:
        """Return the run of that whole id, or raise UnknownRun."""
        run = self.by_id.get(run_id)
        if run is None:
            raise UnknownRun(run_id)
        return run

    def numbered(self, number: int) -> RunRecord:
        """Return a run by its acceptance number."""
        return self.records[bisect_left(self.records, number, key=lambda record: record.number)]

    def leased(self) -> Iterator[RunRecord]:
        """Yield the runs that are running."""
        return (run for worker in self.workers.values() for run in worker.leases.values())

    def next_due(self, now: int) -> int | None:
        """Return when the next run is due, the next question times out, or the next circuit is tried again."""
        soonest = self.heaps.next_due()
        for key in {key for keys in self.heaps.broken.values() for key in keys}:
            until = self.circuits.get(key).until
            if until is not None and now < until < FOREVER and (soonest is None or until < soonest):
                soonest = until
        return soonest

    def put_lanes(self, lanes: Iterable[Lane]) -> list[str]:
        """Store the declarations; return the names of the lanes that changed."""
        last = {lane.name: lane for lane in lanes}
        changed = [name for name, lane in last.items() if self.declared.get(name) != lane]
        for name in changed:
            self.declared[name] = last[name]
            self.judge_lane(name)
        return changed

    def judge_lane(self, name: str) -> None:
        """Set what holds for a lane: the operator's setting, else the declaration."""
        lane = self.ruled_lanes.get(name) or self.declared[name]
        if name in self.lanes:
            self.lanes[name].lane = lane
        else:
            self.lanes[name] = LaneBook(lane, {}, Turns(), Ledger(Seat))
            for user in self.paused_users | {user for user, of in self.caps if of == name}:
                self.judge_user(user)

    def judge_user(self, user: str) -> None:
        """Set the caps that hold for a user: none may start while paused, else the operator's caps per lane."""
        for name, book in self.lanes.items():
            cap = 0 if user in self.paused_users else self.caps.get((user, name))
            if cap is None:
                book.caps.pop(user, None)
            else:
                book.caps[user] = cap

    def lane(self, name: str) -> LaneBook:
        """Return the lane of that name, or raise UnknownLane."""
        if name not in self.lanes:
            raise UnknownLane(name, self.lanes)
        return self.lanes[name]

    def say(self, run: RunRecord, drafts: tuple[Draft, ...], now: int) -> None:
        """Write events into the run's log."""
        run.log = EventBatch(run.attempt, now, drafts, run.log)
        self.said = True


class SessionBooks(Ledger[str, SessionBook]):
    """The sessions that are not idle. A new one gets the settings of an operator."""

    def __init__(self, state: MemoryState) -> None:
        super().__init__(SessionBook)
        self._state = state

    def __missing__(self, name: str) -> SessionBook:
        book = super().__missing__(name)
        ruled, paused = self._state.ruled_sessions.get(name, NO_RULE), name in self._state.paused_sessions
        if ruled is not NO_RULE or paused:
            book.ruled, book.paused = ruled, paused
            book.judge()
        return book
