"""A worker that executes nothing and takes over from dead workers while no other worker may run."""

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

log = logging.getLogger("laneway.takeover")


class TakeoverWorker:
    """Registers without tasks, so it claims nothing. It settles what it takes over by the default policy.

    Use it as `async with TakeoverWorker(store) as takeover: await takeover.take_over()`.
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
        """Leave. What it has not settled is taken over by others."""
        with contextlib.suppress(StoreError):
            await self._store.leave(self._me.id)

    async def is_known_to(self, store: WorkerStore) -> bool:
        """Tell whether that store, perhaps the same one under another address, knows this incarnation."""
        return any(worker.incarnation.id == self._me.id for worker in await store.workers())

    async def take_over(self) -> int:
        """Settle the leases of workers that left, are gone, or have lapsed; return how many there were."""
        others = [worker for worker in await self._store.workers() if worker.incarnation.id != self._me.id]
        gone = [worker.incarnation.id for worker in others if is_gone(worker.incarnation.process)]
        reply = await self._store.reclaim(self._me.id, gone)
        for run in reply.lapsed:
            log.warning("worker %s is gone; its run %s is taken over", run.worker, run.id)
        settled = judged(reply.lapsed, lambda _: TaskPolicy())
        self._call += 1
        # Even with nothing to settle: a step admits submissions that wait in the store's inbox.
        results = [Result(run.number, run.fence, settlement) for run, settlement in settled]
        await self._store.step(Step(self._me.id, self._call, results))
        return len(results)
