"""A wake-up event for one waiting task, set from any thread, and a timer that sets it."""

from __future__ import annotations

import asyncio

from laneway.ports.clock import Clock


class Wakeup:
    """An event that one task waits for. Cheaper than `asyncio.Event`: to set it twice costs one comparison."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Set the event: wake the waiter, or let the next wait return at once. On the loop's own thread only."""
        if not self._is_set:
            self._is_set = True
            self.notify()

    def notify(self) -> None:
        """Wake the current waiter without setting the event. On the loop's own thread only."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def set_from_thread(self) -> None:
        """Set the event from any thread. After the loop has closed this does nothing."""
        try:
            self._loop.call_soon_threadsafe(self.set)
        except RuntimeError:
            # The loop is closed, and the waiter is gone with it.
            self._waiter = None

    def clear(self) -> None:
        """Clear the event. Call this before reading what it announces, so that no change is missed."""
        self._is_set = False

    async def wait(self) -> None:
        """Return once the event is set, or `notify` was called. The event stays set until it is cleared."""
        if not self._is_set:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def wait_and_clear(self) -> None:
        """Return once the event is set, and clear it."""
        await self.wait()
        self._is_set = False


class WakeupTimer:
    """Sets a `Wakeup` at the earliest of the times it was given. On the loop's own thread only."""

    def __init__(self, wakeup: Wakeup, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._wakeup, self._clock = wakeup, clock
        self._sleep: asyncio.Task[None] | None = None
        self._at = 0.0

    def set(self, at: float) -> None:
        """Wake up at that monotonic time at the latest. A task that is woken earlier sets the timer again."""
        if self._sleep is not None and not self._sleep.done():
            if self._at <= at:
                return
            self._sleep.cancel()
        self._at = at
        self._sleep = self._loop.create_task(self._wake_at(at))

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._sleep is not None:
            self._sleep.cancel()

    async def _wake_at(self, at: float) -> None:
        await self._clock.sleep(max(0.0, at - self._clock.monotonic()))
        self._wakeup.set()
