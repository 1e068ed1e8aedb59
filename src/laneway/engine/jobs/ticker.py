"""The ticker: fires jobs when they are due. Every worker process has one, and any one of them is enough.

**Waiting.** A step's reply says how long it is until a job is due, and the store wakes every worker when that becomes
sooner: so it sleeps until then and asks for nothing meanwhile. It waits for a time on the wall, and a wall clock may be
set, or jump while the machine is suspended. So it never sleeps for longer than a second, and looks at the store at once
when wall and monotonic clock have come apart.

**Out of reach.** What is due stays due in the store, so an outage loses nothing: the ticker asks again until it is
answered, and what became of the time in between is decided by each job's misfire rule.
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
APART = SECOND // 2  # a difference between them that nothing but a clock that was set explains
AGAIN = SECOND  # how soon what was left aside is looked at again
CLOSE = 500  # microseconds: a hint that is no sooner than this does not disturb a sleeper
REPEAT_AFTER = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds between two tries while the store does not answer


class Ticker:
    """Fires the jobs of a store that this process may fire."""

    def __init__(self, store: JobStore, clock: Clock, environment: JobEnvironment) -> None:
        self._clock = clock
        self._firer = Firer(store, clock, environment, self._answered)
        self._look_at: int | None = None  # on this machine's wall; None: when somebody says so
        self._nap: asyncio.Future[None] | None = None
        self._aside = False
        self._apart = self._difference()

    @property
    def bad(self) -> dict[str, str]:
        """The jobs that cannot be fired, by name, and why; may be asked from any thread."""
        return self._firer.bad

    def due_in(self, fires_in: int | None, asked_at: float) -> None:
        """Hear how long it is until a job is due, counted from `asked_at` (monotonic): with every answer to a step."""
        # What was left aside is due all the time; it must not keep the ticker awake.
        if fires_in is not None and not self._aside:
            self._look_by(self._wall_of(asked_at) + fires_in)

    async def fire(self) -> int:
        """Fire all that is due now, and return how many firings were won; conditions are waited for."""
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
                    # The worker hears of it by its next step, and ends; until then there is nothing to fire here.
                    await self._clock.sleep(REPEAT_AFTER[-1])
                else:
                    await self._wait()
        finally:
            self._firer.close()

    async def _look(self) -> None:
        """Fire what is due, and find out when to look again."""
        # Race: what is heard from here on may be newer than what the store is about to say.
        self._look_at, self._apart = None, self._difference()
        left = await self._firer.fire()
        self._aside = left.aside
        if left.aside:
            self._look_by(self._clock.now() + AGAIN)
        if left.fires_in is not None:
            self._look_by(self._wall_of(left.asked_at) + left.fires_in)

    async def _wait(self) -> None:
        """Wait for the time to look again, or for a clock that was set."""
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
        """Look at the store by then, if not sooner."""
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
