"""Workers in the memory store: which are alive, and taking over from dead ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.core.lifecycle.step import ReclaimReply
from laneway.core.records.liveness import Heartbeat, Incarnation, WorkerInfo
from laneway.core.records.run import handed
from laneway.core.transfer.move_state import refuse_change, refuse_new
from laneway.errors import LeaseLost
from laneway.stores.memory.state.state import MemoryState
from laneway.stores.memory.state.workers import WorkerRecord


class Liveness:
    """Decides which workers are alive, by `core.records.liveness`."""

    def __init__(self, state: MemoryState) -> None:
        self._state, self._workers = state, state.workers
        self._heartbeat = Heartbeat()

    def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Make the incarnation known; see `WorkerStore`."""
        # An incarnation without tasks can claim nothing: it may take over from dead ones of a store that is shut.
        (refuse_new if incarnation.tasks else refuse_change)(self._state.moving)
        if incarnation.id not in self._workers:
            now = self._state.clock.now()
            self._workers[incarnation.id] = WorkerRecord(incarnation, wake, now)
            self._heartbeat = self._heartbeat.after_renewal(now, incarnation.lease)

    def alive(self, incarnation: str) -> WorkerRecord:
        """Return the worker of that name, or raise LeaseLost."""
        worker = self._workers.get(incarnation)
        if worker is None or worker.left:
            raise LeaseLost(f"incarnation {incarnation} is not alive in this store")
        return worker

    def renew(self, incarnation: str, now: int) -> WorkerRecord:
        """Keep the incarnation alive."""
        worker = self.alive(incarnation)
        worker.renewed_at = now
        self._heartbeat = self._heartbeat.after_renewal(now, worker.incarnation.lease)
        return worker

    def is_dead(self, worker: WorkerRecord) -> bool:
        """Return whether the worker has left or lapsed."""
        return self._dead(worker, (), self._state.clock.now())

    def reclaim(self, incarnation: str, gone: Sequence[str], limit: int) -> ReclaimReply:
        """Take over from the dead; see `WorkerStore`."""
        now = self._state.clock.now()
        heir = self.renew(incarnation, now)
        for worker in list(self._workers.values()):
            if worker is not heir and self._dead(worker, gone, now):
                worker.left, worker.idle = True, False
                self._hand_over(worker, heir, limit)
        lapsed = [
            claimed
            for run in heir.leases.values()
            if run.lapsed
            for claimed in handed([run], run.worker or "", lapsed=True, timed_out=run.timed_out)
        ]
        return ReclaimReply(lapsed, any(worker.left for worker in self._workers.values()))

    def leave(self, incarnation: str) -> None:
        """Unregister the incarnation; see `WorkerStore`."""
        worker = self._workers.get(incarnation)
        if worker is not None:
            worker.left, worker.idle = True, False
            if not worker.leases:
                del self._workers[incarnation]

    def infos(self) -> list[WorkerInfo]:
        """Return the incarnations; see `WorkerStore`."""
        return [
            WorkerInfo(
                incarnation=worker.incarnation,
                renewed_at=worker.renewed_at,
                running=len(worker.leases),
                idle=worker.idle,
                left=worker.left,
                short=worker.short,
            )
            for worker in self._workers.values()
        ]

    def _dead(self, worker: WorkerRecord, gone: Sequence[str], now: int) -> bool:
        lapsed = self._heartbeat.lapsed(worker.renewed_at, worker.incarnation.lease, now)
        return worker.left or lapsed or worker.incarnation.id in gone

    def _hand_over(self, dead: WorkerRecord, heir: WorkerRecord, limit: int) -> None:
        room = limit - sum(run.lapsed for run in heir.leases.values())
        for number in list(dead.leases)[: max(0, room)]:
            run = dead.leases.pop(number)
            run.lapsed = True
            heir.leases[number] = run
        if not dead.leases:
            del self._workers[dead.incarnation.id]
