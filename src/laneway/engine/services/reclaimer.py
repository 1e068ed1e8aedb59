"""The reclaimer: finds incarnations that are gone or have lapsed, and gives their runs to the worker."""

from __future__ import annotations

import logging
from collections.abc import Callable

from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.run import Claimed
from laneway.engine.common.processes import is_gone
from laneway.engine.services.lease_clock import LeaseClock
from laneway.errors import LeaseLost, StoreError
from laneway.ports.clock import Clock
from laneway.ports.workers import WorkerStore

log = logging.getLogger("laneway.reclaimer")

LOOK_EVERY = 1.0  # seconds; after about so long the runs of a process that is gone are taken over
READ_EVERY = 5  # so many looks at most without reading the list of workers


class Reclaimer:
    """Watches the other workers of the store, and checks once a second for a wake-up that got lost."""

    def __init__(
        self,
        store: WorkerStore,
        clock: Clock,
        incarnation: str,
        lease_clock: LeaseClock,
        take: Callable[[list[Claimed]], None],
        changed: Callable[[], None],
    ) -> None:
        self._store, self._clock, self._incarnation, self._lease_clock = store, clock, incarnation, lease_clock
        self._take, self._changed = take, changed
        self._others: list[WorkerInfo] = []
        self.behind = True  # dead workers may have leases that are not taken over yet

    async def run(self) -> None:
        """Look every second until cancelled. Raises LeaseLost; the worker's own next call raises it, too."""
        looks = 0
        while True:
            looks += 1
            await self._clock.sleep(LOOK_EVERY)
            await self.look(read=looks % READ_EVERY == 0)

    async def look(self, *, read: bool) -> None:
        """Look once: read the list of workers if `read` or if something changed, and take over from dead ones."""
        try:
            await self._look(read=read)
        except LeaseLost:
            raise
        except Exception as error:  # whatever it is: there may be no other worker to take over
            unforeseen = not isinstance(error, StoreError)
            log.warning("cannot look after other workers: %s; trying again", error, exc_info=unforeseen)

    async def renew(self) -> None:
        """Renew this worker's own incarnation; done before a takeover. Raises the store's errors."""
        self.behind = await self._reclaim([]) or self.behind

    async def _look(self, *, read: bool) -> None:
        changed = self._store.look()
        if changed:
            self._changed()
        if read or changed:
            self._others = [w for w in await self._store.workers() if w.incarnation.id != self._incarnation]
        gone = [w.incarnation.id for w in self._others if is_gone(w.incarnation.process)]
        more = False
        if gone or self.behind or any(worker.left or self._is_late(worker) for worker in self._others):
            more = await self._reclaim(gone)
        if self.behind and not more:
            self._changed()
        self.behind = more

    def _is_late(self, worker: WorkerInfo) -> bool:
        # Only a hint: the store judges the lapse, by its own clock and after the grace.
        return self._clock.now() - worker.renewed_at > worker.incarnation.lease

    async def _reclaim(self, gone: list[str]) -> bool:
        with self._lease_clock.renewal():
            reply = await self._store.reclaim(self._incarnation, gone)
        if reply.lapsed:
            self._take(reply.lapsed)
        else:
            self._others = [worker for worker in self._others if worker.incarnation.id not in gone]
        return reply.more
