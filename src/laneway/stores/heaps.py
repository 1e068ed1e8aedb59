"""The memory store's shelves: heaps of records, and the record itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Set
from heapq import heappop, heappush

from laneway.core.events import Draft
from laneway.core.flow import Entry
from laneway.core.run import Failure, NewRun
from laneway.core.states import RunState

Batch = tuple[int, int, tuple[Draft, ...]]  # events written together: attempt, time, the events


class Record(Entry):
    """A run as the memory store keeps it."""

    __slots__ = (
        "accepted_at",
        "args",
        "attempt",
        "crashes",
        "due_at",
        "ended_at",
        "failure",
        "fence",
        "id",
        "lapsed",
        "log",
        "max_concurrent",
        "reason",
        "result",
        "started_at",
        "state",
        "worker",
    )

    def __init__(self, number: int, new: NewRun, lane: str, now: int, due_at: int) -> None:
        super().__init__(number, new.task, lane, new.user, new.session, new.priority)
        self.id, self.args, self.max_concurrent = new.id, new.args, new.max_concurrent
        self.state = RunState.PENDING
        self.attempt, self.fence, self.crashes = 1, 0, 0
        self.accepted_at, self.due_at = now, due_at
        self.started_at: int | None = None
        self.ended_at: int | None = None
        self.result: str | None = None
        self.failure: Failure | None = None
        self.reason: str | None = None
        self.worker: str | None = None
        self.lapsed = False
        self.log: list[Batch] = []


Ranked = tuple[int, int, Record]  # rank, acceptance, the run


class Heaps:
    """Shelves for `core.flow.Flow`, and the future runs beside them."""

    def __init__(self) -> None:
        self._ready: dict[str, list[Ranked]] = {}
        self._parked: dict[tuple[str, str], list[Ranked]] = {}
        self._held: dict[str, deque[Record]] = {}
        self._due: list[tuple[int, int, Record]] = []
        self._aside: dict[str, set[str]] = {}  # per lane: tasks that have a parked set

    def put_ready(self, run: Record) -> None:
        """Put the run into its lane's ready order."""
        heappush(self._ready.setdefault(run.lane, []), (run.rank, run.number, run))

    def take_ready(self, lane: str, tasks: Set[str]) -> Record | None:
        """Take the first of the lane's ready order and of the parked sets of these tasks."""
        heap = self._ready.get(lane)
        aside = self._aside.get(lane)
        if aside and not aside.isdisjoint(tasks):
            gate = self._first_gate(heap, lane, aside & tasks)
            if gate is not None:
                return self.take_parked(lane, gate)
        return heappop(heap)[2] if heap else None

    def put_parked(self, run: Record, gate: str) -> None:
        """Put the run into a parked set of its lane."""
        heappush(self._parked.setdefault((run.lane, gate), []), (run.rank, run.number, run))
        if gate.startswith("task:"):
            self._aside.setdefault(run.lane, set()).add(run.task)

    def take_parked(self, lane: str, gate: str) -> Record:
        """Take the first of a parked set."""
        heap = self._parked[lane, gate]
        run = heappop(heap)[2]
        if not heap:
            del self._parked[lane, gate]
            if gate.startswith("task:"):
                self._aside[lane].discard(run.task)
        return run

    def put_held(self, run: Record, place: int) -> None:
        """Put the run behind its session; places only grow, so the order is that of the calls."""
        assert run.session is not None
        self._held.setdefault(run.session, deque()).append(run)

    def take_held(self, session: str) -> Record:
        """Take the first of the session's held runs."""
        held = self._held[session]
        run = held.popleft()
        if not held:
            del self._held[session]
        return run

    def put_due(self, run: Record) -> None:
        """Keep the run until its due time."""
        heappush(self._due, (run.due_at, run.number, run))

    def take_due(self, now: int) -> Record | None:
        """Take the first run that is due by `now`."""
        return heappop(self._due)[2] if self.is_due(now) else None

    def is_due(self, now: int) -> bool:
        """Tell whether a future run is due by `now` and was not taken yet."""
        return bool(self._due) and self._due[0][0] <= now

    def next_due(self) -> int | None:
        """Return when the next future run is due."""
        return self._due[0][0] if self._due else None

    def lanes_with_work(self, tasks: Set[str]) -> list[str]:
        """Return the lanes that have something for a worker that knows these tasks."""
        ready = {lane for lane, heap in self._ready.items() if heap}
        return sorted(ready | {lane for lane, names in self._aside.items() if not names.isdisjoint(tasks)})

    def aside_in(self, lanes: Iterable[str]) -> set[str]:
        """Return the tasks of which runs are set aside in these lanes."""
        return {task for lane in lanes for task in self._aside.get(lane, ())}

    def _first_gate(self, ready: list[Ranked] | None, lane: str, tasks: Set[str]) -> str | None:
        """Return the gate behind which the first run waits, None if it is in the ready order."""
        first, found = ready, None
        for gate in [f"task:{task}" for task in tasks]:
            heap = self._parked[lane, gate]
            if not first or heap[0] < first[0]:
                first, found = heap, gate
        return found
