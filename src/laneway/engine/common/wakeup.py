"""A bell: one task waits, anybody rings, from any thread; many rings before the wait are one. And its alarm."""

from __future__ import annotations

import asyncio

from laneway.ports.clock import Clock


class Wakeup:
    """Wakes the one task that waits on it. Cheaper than an Event: ringing an already rung bell costs a comparison."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the waiter, or make the next wait return at once. From the loop's own thread."""
        if not self._rung:
            self._rung = True
            self.stir()

    def stir(self) -> None:
        """Let go on who lingers, without a ring. From the loop's own thread."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def ring_from_thread(self) -> None:
        """Ring from any thread, also after the loop has closed (then nobody waits)."""
        try:
            self._loop.call_soon_threadsafe(self.ring)
        except RuntimeError:
            # The loop is closed: whoever waited is gone with it.
            self._waiter = None

    def hush(self) -> None:
        """Forget the rings so far: what they were about is being looked at."""
        self._rung = False

    async def wait(self) -> None:
        """Return once the bell was rung since the last wait."""
        await self.linger()
        self._rung = False

    async def linger(self) -> None:
        """Return once the bell was rung, or stirred. It stays rung until somebody hushes it."""
        if not self._rung:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None


class WakeupTimer:
    """Rings a bell at the earliest of the times it was set to. On the loop's own thread."""

    def __init__(self, bell: Wakeup, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._bell, self._clock = bell, clock
        self._rings: asyncio.Task[None] | None = None
        self._at = 0.0

    def set(self, at: float) -> None:
        """Ring at that time of the clock, at the latest: who is woken earlier asks again."""
        if self._rings is not None and not self._rings.done():
            if self._at <= at:
                return
            self._rings.cancel()
        self._at = at
        self._rings = self._loop.create_task(self._ring_then(at))

    def cancel(self) -> None:
        """Do not ring any more."""
        if self._rings is not None:
            self._rings.cancel()

    async def _ring_then(self, at: float) -> None:
        await self._clock.sleep(max(0.0, at - self._clock.monotonic()))
        self._bell.ring()
