"""The memory store's shelves: heaps of records, and the record itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set
from heapq import heappop, heappush
from itertools import chain

import msgspec

from laneway.core.audit import DUE, HELD, PARKED, READY
from laneway.core.events import Draft
from laneway.core.run import Failure, NewRun
from laneway.core.states import RunState
from laneway.core.turns import FRESH


class Batch(msgspec.Struct, eq=False, gc=False):
    """Events written together, and the batch written before."""

    attempt: int
    at: int
    drafts: tuple[Draft, ...]
    before: Batch | None


class Record(msgspec.Struct, eq=False, gc=False):
    """A run as the memory store keeps it.

    Neither it nor what it holds is tracked by Python's garbage collector (hence no list in it), which would otherwise
    look at every run that was ever accepted, again and again.
    """

    number: int
    id: str
    task: str
    args: str
    lane: str
    user: str | None
    session: str | None
    priority: int
    max_concurrent: int | None
    accepted_at: int
    due_at: int
    kind: int = FRESH
    rank: int = 0
    state: RunState = RunState.PENDING
    attempt: int = 1
    fence: int = 0
    crashes: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    result: str | None = None
    failure: Failure | None = None
    reason: str | None = None
    worker: str | None = None
    lapsed: bool = False
    log: Batch | None = None  # the newest

    @classmethod
    def of(cls, number: int, new: NewRun, lane: str, now: int, due_at: int) -> Record:
        """Return the record of a run that is being accepted."""
        who = (new.user, new.session, new.priority, new.max_concurrent)
        return cls(number, new.id, new.task, new.args, lane, *who, now, due_at)


Ranked = tuple[int, int, Record]  # rank, acceptance, the run


class ReadyOrder:
    """A priority queue that is fast for what mostly happens: runs come in order, and then no heap is needed."""

    __slots__ = ("_heap", "_line")

    def __init__(self) -> None:
        self._line: deque[Ranked] = deque()  # sorted: what comes behind its last joins it
        self._heap: list[Ranked] = []  # everything else

    def __bool__(self) -> bool:
        """Tell whether anything is in it."""
        return bool(self._line or self._heap)

    def __iter__(self) -> Iterator[Ranked]:
        """Go through it, in no order."""
        return chain(self._line, self._heap)

    def put(self, item: Ranked) -> None:
        """Put a run at its rank."""
        if not self._line or item > self._line[-1]:
            self._line.append(item)
        else:
            heappush(self._heap, item)

    def first(self) -> Ranked | None:
        """Return the first without taking it."""
        if self._heap and (not self._line or self._heap[0] < self._line[0]):
            return self._heap[0]
        return self._line[0] if self._line else None

    def take(self) -> Record | None:
        """Take the first."""
        if self._heap and (not self._line or self._heap[0] < self._line[0]):
            return heappop(self._heap)[2]
        return self._line.popleft()[2] if self._line else None


class Heaps:
    """Shelves for `core.flow.Flow`, and the future runs beside them."""

    def __init__(self) -> None:
        self._ready: dict[str, ReadyOrder] = {}
        self._parked: dict[tuple[str, str], list[Ranked]] = {}
        self._held: dict[str, deque[Record]] = {}
        self._due: list[tuple[int, int, Record]] = []
        self._aside: dict[str, set[str]] = {}  # per lane: tasks that have a parked set

    def put_ready(self, run: Record) -> None:
        """Put the run into its lane's ready order."""
        order = self._ready.get(run.lane)
        if order is None:
            order = self._ready[run.lane] = ReadyOrder()
        order.put((run.rank, run.number, run))

    def take_ready(self, lane: str, tasks: Set[str]) -> Record | None:
        """Take the first of the lane's ready order and of the parked sets of these tasks."""
        order = self._ready.get(lane)
        aside = self._aside.get(lane)
        if aside and not aside.isdisjoint(tasks):
            gate = self._first_gate(order.first() if order else None, lane, aside & tasks)
            if gate is not None:
                return self.take_parked(lane, gate)
        return order.take() if order is not None else None

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

    def everything(self) -> Iterator[tuple[str, str | None, Record]]:
        """Go through all runs: the shelf, the gate if it is parked, the run."""
        yield from ((READY, None, run) for order in self._ready.values() for _, _, run in order)
        yield from ((PARKED, gate, run) for (_, gate), heap in self._parked.items() for _, _, run in heap)
        yield from ((HELD, None, run) for held in self._held.values() for run in held)
        yield from ((DUE, None, run) for _, _, run in self._due)

    def parked_sets(self) -> Iterator[tuple[tuple[str, str], int]]:
        """Go through the parked sets a claim can find: lane and gate, and how many runs."""
        for (lane, gate), heap in self._parked.items():
            task = gate.removeprefix("task:")
            if task == gate or task in self._aside[lane]:
                yield (lane, gate), len(heap)

    def _first_gate(self, ready: Ranked | None, lane: str, tasks: Set[str]) -> str | None:
        """Return the gate behind which the first run waits, None if it is in the ready order."""
        first, found = ready, None
        for gate in [f"task:{task}" for task in tasks]:
            head = self._parked[lane, gate][0]
            if first is None or head < first:
                first, found = head, gate
        return found
