"""The pruner: deletes ended runs after their retention, and trims old deltas, a little at a time.

**Several workers.** Every worker prunes; the second one finds less to do. The waits between two rounds differ, so that
workers do not prune at the same time.

**Small steps.** One call to the store deletes at most a few hundred runs, and a pause follows: other writers never wait
longer than for one such call.

**A clock that was set ahead** must not age runs. A worker compares the wall clock with monotonic time since its start,
and adds what the wall clock gained to the retention. A clock that was set back only makes runs younger.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from zlib import crc32

from laneway.core.common.instants import SECOND
from laneway.core.records.states import RunState
from laneway.errors import StoreError
from laneway.ports.clock import Clock
from laneway.ports.upkeep import OldDeltas, OldRuns, UpkeepStore

log = logging.getLogger("laneway.pruner")

EVERY = 60.0  # seconds between two rounds, plus or minus a quarter
BATCH = 500  # runs that one call deletes at most
TRIMMED = 10  # runs that one call trims at most, because logs may be long
PAUSE = 0.1  # seconds between two calls


class Pruner:
    """Prunes a store about once a minute. `keep` is the retention in microseconds, by state.

    `keep_deltas` is how long deltas are kept after a run's end; None keeps them as long as the run.
    """

    def __init__(
        self,
        store: UpkeepStore,
        clock: Clock,
        keep: Mapping[RunState, int],
        incarnation: str,
        keep_deltas: int | None = None,
    ) -> None:
        self._store, self._clock, self._keep, self._keep_deltas = store, clock, keep, keep_deltas
        self._every = EVERY * (0.75 + crc32(incarnation.encode()) / 2**33)
        self._began = self._difference()

    async def run(self) -> None:
        """Prune now and then, until cancelled."""
        while True:
            await self._clock.sleep(self._every)
            await self.prune()
            await self.trim()

    async def prune(self) -> int:
        """Delete all runs that are old enough; return how many."""
        total = 0
        try:
            while self._keep:
                pruned = await self._store.prune(OldRuns(self._kept()), limit=BATCH)
                total += pruned
                if pruned < BATCH:
                    break
                await self._clock.sleep(PAUSE)
        except StoreError as error:
            log.warning("cannot prune: %s; trying again in %g s", error, self._every)
        if total:
            log.info("pruned %d runs that had ended long ago", total)
        return total

    async def trim(self) -> int:
        """Trim all deltas that are old enough; return in how many runs."""
        total = 0
        try:
            while self._keep_deltas is not None:
                trimmed = await self._store.prune(OldDeltas(self._keep_deltas + self._gained()), limit=TRIMMED)
                total += trimmed
                if trimmed < TRIMMED:
                    break
                await self._clock.sleep(PAUSE)
        except StoreError as error:
            log.warning("cannot trim: %s; trying again in %g s", error, self._every)
        if total:
            log.info("trimmed the streamed text of %d runs", total)
        return total

    def _kept(self) -> dict[RunState, int]:
        gained = self._gained()
        return {state: length + gained for state, length in self._keep.items()}

    def _gained(self) -> int:
        return max(0, self._difference() - self._began)

    def _difference(self) -> int:
        return self._clock.now() - round(self._clock.monotonic() * SECOND)
