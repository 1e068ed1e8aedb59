"""The shelves of the memory store: heaps of records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from heapq import heappop, heappush, nsmallest
from itertools import chain, count

from laneway.core.queue.audit import DUE, HELD, PARKED, READY
from laneway.core.queue.shelves import BREAKER, NO_GATES, TASK, Shelf, gate_of
from laneway.core.queue.turns import ASIDE
from laneway.core.records.states import RunState
from laneway.stores.memory.state.records import RunRecord

_DUE, _HELD, _READY, _PARKED = Shelf.DUE, Shelf.HELD, Shelf.READY, Shelf.PARKED

Ranked = tuple[int, int, int, RunRecord]  # rank, acceptance, the spot, the run
QUEUED = 1  # the spot of a run in a session's queue


class RunHeap:
    """Runs by rank. It is fast for what mostly happens: they come in order, and then no heap is needed.

    A run that is taken out before its turn leaves its entry behind: the entry's spot is not the run's any more. While
    there is something in its `line`, and nothing `stale`, it is not empty.
    """

    __slots__ = ("heap", "line", "stale")

    def __init__(self) -> None:
        self.line: deque[Ranked] = deque()  # sorted: a run with a greater rank than its last is appended
        self.heap: list[Ranked] = []  # everything else
        self.stale = False  # entries were left behind

    def __iter__(self) -> Iterator[RunRecord]:
        """Yield the runs, in no order."""
        return (run for _, _, spot, run in chain(self.line, self.heap) if run.spot == spot)

    def ranked(self) -> Iterator[tuple[int, RunRecord]]:
        """Yield the runs with their ranks, in no order."""
        return ((rank, run) for rank, _, spot, run in chain(self.line, self.heap) if run.spot == spot)

    def sorted(self) -> list[RunRecord]:
        """Return all runs, in order."""
        entries = sorted(item for item in chain(self.line, self.heap) if item[3].spot == item[2])
        return [run for _, _, _, run in entries]

    def put(self, item: Ranked) -> None:
        """Put a run at its rank."""
        line = self.line
        if not line or item > line[-1]:
            line.append(item)
        else:
            heappush(self.heap, item)

    @property
    def is_empty(self) -> bool:
        """Return whether it is empty."""
        return self.first() is None if self.stale else not (self.line or self.heap)

    def first(self) -> Ranked | None:
        """Return the first without taking it."""
        while True:
            if self.heap and (not self.line or self.heap[0] < self.line[0]):
                item = self.heap[0]
                if item[2] == item[3].spot:
                    return item
                heappop(self.heap)
            elif self.line:
                item = self.line[0]
                if item[2] == item[3].spot:
                    return item
                self.line.popleft()
            else:
                return None

    def take(self) -> RunRecord | None:
        """Take the first."""
        line, heap = self.line, self.heap
        while True:
            if not heap:
                if not line:
                    return None
                item = line.popleft()
            elif line and line[0] < heap[0]:
                item = line.popleft()
            else:
                item = heappop(heap)
            run = item[3]
            if run.spot == item[2]:
                return run


class Heaps:
    """Shelves for `core.queue.claim.Flow`, and the future runs beside them.

    What a session holds back is a *queue* of the runs themselves while they come and go in order; else, and until it
    holds none, it is an `RunHeap`. A run that was held for long is in no cache any more, and an entry of it, with its
    spot, would be two more things to fetch from memory when its turn comes. A queued run's rank is its place.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Empty all shelves."""
        self._ready: dict[str, RunHeap] = {}
        self._parked: dict[tuple[str, str], RunHeap] = {}
        self._queues: dict[str, deque[RunRecord]] = {}  # by session: its held runs
        self._held: dict[str, RunHeap] = {}  # the same of sessions that have no queue
        self._due = RunHeap()
        self._deadlines: list[tuple[int, int, RunRecord]] = []
        self._aside: dict[str, set[str]] = {}  # per lane: tasks that have a parked set
        self.broken: dict[str, set[str]] = {}  # per lane: keys of circuits that have a parked set
        self._spots = count(QUEUED + 1)

    def put_ready(self, run: RunRecord) -> None:
        """Put the run into its lane's ready order."""
        order = self._ready.get(run.lane)
        if order is None:
            order = self._ready[run.lane] = RunHeap()
        run.shelf, run.spot = _READY, (spot := next(self._spots))
        # As `RunHeap.put`: a call less for every run; so in `put_parked`.
        line, item = order.line, (run.rank, run.number, spot, run)
        if not line or item > line[-1]:
            line.append(item)
        else:
            heappush(order.heap, item)

    def taking(self, lane: str, tasks: Set[str], gates: Set[str] = NO_GATES) -> Callable[[], RunRecord | None]:
        """Return what takes the first of the lane's ready order and of the parked sets of these tasks and gates."""
        order = self._ready.get(lane)
        if order is None:
            order = self._ready[lane] = RunHeap()
        aside = self._aside.get(lane, NO_GATES)
        if not gates and aside.isdisjoint(tasks):
            return order.take
        return partial(self._take_merged, lane, order, aside, tasks, gates)

    def _take_merged(
        self, lane: str, order: RunHeap, aside: Set[str], tasks: Set[str], gates: Set[str]
    ) -> RunRecord | None:
        gate = self._first_gate(order.first(), lane, [*(TASK + task for task in aside & tasks), *gates])
        return order.take() if gate is None else self.take_parked(lane, gate)

    def put_parked(self, run: RunRecord, gate: str) -> None:
        """Put the run into a parked set of its lane."""
        key = run.lane, gate
        order = self._parked.get(key)
        if order is None:
            order = self._parked[key] = RunHeap()
        run.shelf, run.spot = _PARKED, (spot := next(self._spots))
        line, item = order.line, (run.rank, run.number, spot, run)
        if not line or item > line[-1]:
            line.append(item)
        else:
            heappush(order.heap, item)
        if not run.kind & ASIDE:
            return
        if gate.startswith(TASK):
            self._aside.setdefault(run.lane, set()).add(run.task)
        else:
            self.broken.setdefault(run.lane, set()).add(gate.removeprefix(BREAKER))

    def take_parked(self, lane: str, gate: str) -> RunRecord:
        """Take the first of a parked set."""
        order = self._parked[lane, gate]
        line, heap = order.line, order.heap
        if order.stale or not line:
            run = order.take()
            assert run is not None, f"the counts say that {gate} of {lane} has parked runs"
            self._forget_if_empty(order, lane, gate, run)
            return run
        # As `RunHeap.take`: a call less for every run that was parked.
        run = heappop(heap)[3] if heap and heap[0] < line[0] else line.popleft()[3]
        if not (line or heap):
            self._forget_if_empty(order, lane, gate, run)
        return run

    def put_held(self, run: RunRecord, place: int) -> None:
        """Put the run on its session's held shelf."""
        session = run.session
        assert session is not None
        run.shelf = _HELD
        order = self._held.get(session)
        if order is None:
            queue = self._queues.get(session)
            if queue is None:
                queue = self._queues[session] = deque()
            if not queue or place > queue[-1].rank:
                run.spot, run.rank = QUEUED, place
                queue.append(run)
                return
            order = self._ordered(session)
        run.spot = next(self._spots)
        order.put((place, run.number, run.spot, run))

    def take_held(self, session: str) -> RunRecord:
        """Take the first of the session's held runs."""
        queue = self._queues.get(session)
        if queue is not None:
            run = queue.popleft()
            if not queue:
                del self._queues[session]
        else:
            run = self._take_ordered(session)
        if run.paused:
            run.spot = 0
        return run

    def _take_ordered(self, session: str) -> RunRecord:
        order = self._held[session]
        run = order.take()
        assert run is not None, f"the counts say that session {session} holds runs back"
        if order.is_empty:
            del self._held[session]
        return run

    def _ordered(self, session: str) -> RunHeap:
        """Replace a session's queue by a heap: a run comes before others, or is removed before its turn."""
        order = self._held[session] = RunHeap()
        for run in self._queues.pop(session):
            run.spot = next(self._spots)
            order.line.append((run.rank, run.number, run.spot, run))
        return order

    def put_due(self, run: RunRecord) -> None:
        """Keep the run until its due time."""
        run.shelf, run.spot = _DUE, next(self._spots)
        self._due.put((run.due_at, run.number, run.spot, run))

    def take_due(self, now: int) -> RunRecord | None:
        """Take the first run that is due by `now`."""
        return self._due.take() if self.is_due(now) else None

    def is_due(self, now: int) -> bool:
        """Return whether a future run is due by `now` and was not taken yet."""
        first = self._due.first()
        return first is not None and first[0] <= now

    def next_due(self) -> int | None:
        """Return when the next future run is due or the next question times out, whichever is first."""
        first, late = self._due.first(), self._first_deadline()
        if first is None or (late is not None and late < first[0]):
            return late
        return first[0]

    def put_deadline(self, run: RunRecord) -> None:
        """Note the time-out of the run's question, if it has one."""
        until = None if run.wait is None else run.wait.until
        if until is not None:
            heappush(self._deadlines, (until, run.number, run))

    def take_late(self, now: int) -> RunRecord | None:
        """Take the first run whose question was not answered by `now`."""
        late = self._first_deadline()
        return heappop(self._deadlines)[2] if late is not None and late <= now else None

    def _first_deadline(self) -> int | None:
        while self._deadlines:
            until, _, run = self._deadlines[0]
            if run.state is RunState.WAITING and run.wait is not None and run.wait.until == until:
                return until
            heappop(self._deadlines)  # it was answered, or has ended
        return None

    def remove(self, run: RunRecord) -> None:
        """Remove a run from its shelf, whichever that is."""
        if run.shelf is _HELD and run.session is not None:
            order = self._held.get(run.session) or self._ordered(run.session)
            run.spot, order.stale = 0, True
            if order.is_empty:
                del self._held[run.session]
        elif run.shelf is _PARKED:
            gate = gate_of(run)
            order = self._parked[run.lane, gate]
            run.spot, order.stale = 0, True
            self._forget_if_empty(order, run.lane, gate, run)
        else:
            order = self._ready[run.lane] if run.shelf is _READY else self._due
            run.spot, order.stale = 0, True

    def held_by(self, session: str) -> list[RunRecord]:
        """Return the session's held runs, in order."""
        return self._held[session].sorted() if session in self._held else list(self._queues.get(session, ()))

    def due_of(self, session: str) -> list[RunRecord]:
        """Return the future runs of the session that were never started, by due time."""
        return [run for run in self._due.sorted() if run.session == session and not run.fence]

    def before(self, run: RunRecord) -> int:
        """Return how many runs of its lane's ready order are before this one: all, if it has not come there yet."""
        order = self._ready.get(run.lane) or ()
        if run.shelf not in (_READY, _PARKED):
            return sum(1 for _ in order)
        return sum((other.rank, other.number) < (run.rank, run.number) for other in order)

    def oldest(self, lane: str, most: int) -> list[RunRecord]:
        """Return the runs accepted first of those of the lane that were never started and are no follow-ups.

        It looks at all that wait.
        """
        fresh = (run for _, _, run in self.everything() if run.lane == lane and not run.fence and not run.paused)
        waiting = (run for run in fresh if run.ties is None or run.ties.parent is None or run.ties.call is not None)
        return nsmallest(most, waiting, key=lambda run: run.number)

    def lanes_with_work(self, tasks: Set[str]) -> list[str]:
        """Return the lanes with runs for a worker that knows these tasks."""
        ready = {lane for lane, order in self._ready.items() if not order.is_empty}
        return sorted(ready | {lane for lane, names in self._aside.items() if not names.isdisjoint(tasks)})

    def asides(self) -> dict[str, int]:
        """Return how many runs are set aside, by task."""
        counts: dict[str, int] = {}
        for (_, gate), order in self._parked.items():
            if gate.startswith(TASK):
                task = gate.removeprefix(TASK)
                counts[task] = counts.get(task, 0) + len(list(order))
        return counts

    def parked_by(self, key: str) -> int:
        """Return how many runs the circuit of that key has parked, in all lanes."""
        return sum(len(list(order)) for (_, gate), order in self._parked.items() if gate == BREAKER + key)

    def aside_in(self, lanes: Iterable[str]) -> set[str]:
        """Return the tasks of which runs are set aside in these lanes."""
        return {task for lane in lanes for task in self._aside.get(lane, ())}

    def _forget_if_empty(self, order: RunHeap, lane: str, gate: str, last: RunRecord) -> None:
        if order.is_empty:
            del self._parked[lane, gate]
            if gate.startswith(TASK):
                self._aside[lane].discard(last.task)
            elif gate.startswith(BREAKER):
                keys = self.broken[lane]
                keys.discard(gate.removeprefix(BREAKER))
                if not keys:
                    del self.broken[lane]

    def everything(self) -> Iterator[tuple[str, str | None, RunRecord]]:
        """Yield all runs: the shelf, the gate if the run is parked, the run."""
        yield from ((READY, None, run) for order in self._ready.values() for run in order)
        yield from ((PARKED, gate, run) for (_, gate), order in self._parked.items() for run in order)
        yield from ((HELD, None, run) for queue in self._queues.values() for run in queue)
        yield from ((HELD, None, run) for order in self._held.values() for run in order)
        yield from ((DUE, None, run) for run in self._due)

    def places(self) -> Iterator[tuple[Shelf, str | None, int, RunRecord]]:
        """Yield all runs: the shelf, the gate if the run is parked, its rank there, the run."""
        for order in self._ready.values():
            yield from ((_READY, None, rank, run) for rank, run in order.ranked())
        for (_, gate), order in self._parked.items():
            yield from ((_PARKED, gate, rank, run) for rank, run in order.ranked())
        for queue in self._queues.values():
            yield from ((_HELD, None, run.rank, run) for run in queue)
        for order in self._held.values():
            yield from ((_HELD, None, rank, run) for rank, run in order.ranked())
        yield from ((_DUE, None, rank, run) for rank, run in self._due.ranked())

    def parked_sets(self) -> Iterator[tuple[tuple[str, str], int]]:
        """Yield the parked sets that a claim can find: lane and gate, and the number of runs."""
        for (lane, gate), order in self._parked.items():
            found, name = True, gate.partition(":")[2]
            if gate.startswith(TASK):
                found = name in self._aside[lane]
            elif gate.startswith(BREAKER):
                found = name in self.broken.get(lane, ())
            if found:
                yield (lane, gate), len(list(order))

    def _first_gate(self, ready: Ranked | None, lane: str, gates: Iterable[str]) -> str | None:
        """Return the gate behind which the first run waits, None if it is in the ready order."""
        first, found = ready, None
        for gate in gates:
            order = self._parked.get((lane, gate))
            head = None if order is None else order.first()
            if head is not None and (first is None or head < first):
                first, found = head, gate
        return found
