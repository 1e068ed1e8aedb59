"""An heir: an incarnation that executes nothing and takes over from the dead, while nobody else may."""

from __future__ import annotations

import contextlib
import logging
import socket
from types import TracebackType

from laneway.core.lifecycle.step import Result, Step
from laneway.core.records.liveness import Incarnation
from laneway.core.records.policy import TaskPolicy
from laneway.engine.common.ids import new_run_id
from laneway.engine.common.processes import is_gone, mark
from laneway.engine.services.takeover_policy import judged
from laneway.errors import StoreError
from laneway.ports.workers import WorkerStore

log = logging.getLogger("laneway.heir")


class TakeoverWorker:
    """Knows no tasks, so it claims nothing; what it takes over it settles by the default policy, as any worker would.

    Use it as `async with TakeoverWorker(store) as heir: await heir.take_over()`.
    """

    def __init__(self, store: WorkerStore) -> None:
        self._store = store
        self._me = Incarnation(id=new_run_id(), host=socket.gethostname(), process=mark(), tasks=frozenset())
        self._call = 0

    async def __aenter__(self) -> TakeoverWorker:
        """Register."""
        await self._store.register(self._me, lambda: None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave: what it has not settled others take over."""
        with contextlib.suppress(StoreError):
            await self._store.leave(self._me.id)

    async def is_known_to(self, store: WorkerStore) -> bool:
        """Tell whether that store, which may be the same by another address, knows this incarnation."""
        return any(worker.incarnation.id == self._me.id for worker in await store.workers())

    async def take_over(self) -> int:
        """Settle the leases of those who left, are seen to be gone, or have lapsed; return how many there were."""
        others = [worker for worker in await self._store.workers() if worker.incarnation.id != self._me.id]
        gone = [worker.incarnation.id for worker in others if is_gone(worker.incarnation.process)]
        reply = await self._store.reclaim(self._me.id, gone)
        for run in reply.lapsed:
            log.warning("worker %s is gone; its run %s is taken over", run.worker, run.id)
        settled = judged(reply.lapsed, lambda _: TaskPolicy())
        self._call += 1
        # Also if there is nothing to settle: a step brings in what others have left at the store's door.
        results = [Result(run.number, run.fence, settlement) for run, settlement in settled]
        await self._store.step(Step(self._me.id, self._call, results))
        return len(results)
