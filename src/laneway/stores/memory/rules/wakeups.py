"""Wake-ups in the memory store: which workers to wake when runs may have become startable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laneway.core.queue.circuits import named
from laneway.stores.memory.state.state import MemoryState
from laneway.stores.memory.state.workers import WorkerRecord


class WakeUps:
    """Chooses among the idle workers. A chosen worker is idle no more, so none is woken twice for one run."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def wake_for_work(self) -> None:
        """Wake as many as can start something, and one if nobody knows the next due time.

        A job that is due sooner than they know concerns all: any of them may be gone by then.
        """
        if self._state.jobs.is_sooner():
            for worker in self._state.workers.values():
                worker.wake()
        idle = [worker for worker in self._state.workers.values() if worker.idle]
        if not idle:
            return
        open_ = {name: book for name, book in self._state.lanes.items() if book.room() > 0}
        left = {name: min(book.ready(), book.room()) for name, book in open_.items() if book.ready()}
        aside = {
            name: tasks - self._state.paused_tasks for name in open_ if (tasks := self._state.heaps.aside_in([name]))
        }
        for lane, tasks in self._let_start(open_):
            aside.setdefault(lane, set()).update(tasks - self._state.paused_tasks)
        for worker in idle:
            if self._takes_some(worker, left) or self._takes_aside(worker, aside):
                self._wake(worker)
        self._wake_for_due(idle)

    def _let_start(self, lanes: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
        """Yield the lanes, with tasks, in which runs wait that their breakers let start by now."""
        broken, now = self._state.heaps.broken, self._state.clock.now()
        for lane in lanes if broken else ():
            keys = [key for key in broken.get(lane, ()) if self._state.circuits.get(key).lets_start(now)]
            if keys:
                yield lane, {named(key)[0] for key in keys}

    def _takes_some(self, worker: WorkerRecord, left: dict[str, int]) -> bool:
        """Return whether the worker may take one of the runs that are left to start, and count it as taken."""
        for name, runs in left.items():
            if runs and self._may_take(worker, name):
                left[name] -= 1
                return True
        return False

    def _takes_aside(self, worker: WorkerRecord, aside: dict[str, set[str]]) -> bool:
        """Return whether the worker may take one of the runs that were set aside."""
        tasks = worker.incarnation.tasks
        return any(not names.isdisjoint(tasks) and self._may_take(worker, lane) for lane, names in aside.items())

    def _may_take(self, worker: WorkerRecord, lane: str) -> bool:
        most = self._state.lanes[lane].lane.worker_limit
        return most is None or worker.spare(lane, most) > 0

    def _wake_for_due(self, idle: list[WorkerRecord]) -> None:
        # Invariant: if any worker is idle, at least one idle or just-woken worker has a timer for the next due time.
        next_due = self._state.next_due(self._state.clock.now())
        if next_due is not None and all(w.idle and (w.told is None or w.told > next_due) for w in idle):
            self._wake(idle[0])

    def _wake(self, worker: WorkerRecord) -> None:
        worker.idle = False
        worker.wake()
