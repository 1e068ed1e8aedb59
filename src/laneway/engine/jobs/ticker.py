"""The ticker: fires jobs when they are due. Every worker process has one, and any single one is enough.

**Waiting.** A step's reply says how long it is until a job is due, and the store wakes every worker when that becomes
sooner. So the ticker sleeps until then, without polling. It waits for a wall-clock time, and a wall clock may be set,
or jump while the machine is suspended. So it never sleeps longer than a second, and reads the store at once when wall
clock and monotonic clock have drifted apart.

**Outages.** Due jobs stay due in the store, so an outage loses nothing: the ticker retries until it gets an answer.
Each job's misfire rule decides about the fires in between.
"""

from __future__ import annotations

import asyncio
import logging

from laneway.core.common.instants import SECOND
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.firer import Firer
from laneway.errors import StoreMoved, StoreUnavailable
from laneway.ports.clock import Clock
from laneway.ports.jobs import JobStore

log = logging.getLogger("laneway.ticker")

NAP = 1.0  # seconds after which the clocks are compared
APART = SECOND // 2  # if they differ by more, a clock was set
AGAIN = SECOND  # after which jobs that were left aside are tried again
CLOSE = 500  # microseconds; a hint must be sooner by this to end a sleep
REPEAT_AFTER = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds between tries while the store does not answer


class Ticker:
    """Fires the jobs of a store that this process may fire."""

    def __init__(self, store: JobStore, clock: Clock, environment: JobEnvironment) -> None:
        self._clock = clock
        self._firer = Firer(store, clock, environment, self._answered)
        self._look_at: int | None = None  # by this machine's wall clock; None: only on a hint
        self._nap: asyncio.Future[None] | None = None
        self._aside = False
        self._apart = self._difference()

    @property
    def bad(self) -> dict[str, str]:
        """The jobs that cannot be fired, by name, with the reason; any thread may read it."""
        return self._firer.bad

    def due_in(self, fires_in: int | None, asked_at: float) -> None:
        """Take the hint of a step's reply: in how long a job is due, counted from `asked_at` (monotonic)."""
        # A job that was left aside stays due. It must not keep the ticker awake.
        if fires_in is not None and not self._aside:
            self._look_by(self._wall_of(asked_at) + fires_in)

    async def fire(self) -> int:
        """Fire all that is due now, conditions included; return how many firings were won."""
        return await self._firer.fire_all()

    async def run(self) -> None:
        """Fire jobs as they become due, until cancelled."""
        tries = 0
        try:
            while True:
                try:
                    await self._look()
                    tries = 0
                except StoreUnavailable as error:
                    wait = REPEAT_AFTER[min(tries, len(REPEAT_AFTER) - 1)]
                    tries += 1
                    log.warning("cannot fire jobs: %s; trying again in %g s", error, wait)
                    await self._clock.sleep(wait)
                except StoreMoved:
                    # The worker learns it by its next step, and ends. Until then there is nothing to fire here.
                    await self._clock.sleep(REPEAT_AFTER[-1])
                else:
                    await self._wait()
        finally:
            self._firer.close()

    async def _look(self) -> None:
        """Fire what is due, and compute when to look again."""
        # Race: a hint from here on may be newer than the store's answer, so it must not be overwritten.
        self._look_at, self._apart = None, self._difference()
        left = await self._firer.fire()
        self._aside = left.aside
        if left.aside:
            self._look_by(self._clock.now() + AGAIN)
        if left.fires_in is not None:
            self._look_by(self._wall_of(left.asked_at) + left.fires_in)

    async def _wait(self) -> None:
        """Wait for the time to look again, or until a clock was set."""
        while not self._is_time():
            if self._look_at is None:
                nap: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            else:
                seconds = min(NAP, (self._look_at - self._clock.now()) / SECOND)
                nap = asyncio.ensure_future(self._clock.sleep(seconds))
            self._nap = nap
            try:
                await asyncio.wait([nap])
            finally:
                nap.cancel()

    def _is_time(self) -> bool:
        if self._look_at is None:
            return False
        return self._clock.now() >= self._look_at or abs(self._difference() - self._apart) > APART

    def _look_by(self, at: int) -> None:
        """Look at the store at that time, or earlier."""
        if self._look_at is None or at < self._look_at - CLOSE:
            self._look_at = at
            if self._nap is not None:
                self._nap.cancel()

    def _answered(self) -> None:
        self._look_by(self._clock.now())

    def _wall_of(self, moment: float) -> int:
        return self._clock.now() - round((self._clock.monotonic() - moment) * SECOND)

    def _difference(self) -> int:
        return self._clock.now() - round(self._clock.monotonic() * SECOND)
