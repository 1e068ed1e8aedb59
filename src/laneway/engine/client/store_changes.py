"""Wait for something to change in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from laneway.engine.common.wakeup import Wakeup
from laneway.ports.clock import Clock
from laneway.ports.events import EventStore

LOOK_EVERY = 1.0  # seconds; a notification may get lost


class StoreChanges:
    """A subscription to the store's changes, for one waiter: `async with StoreChanges(store, clock) as changes`."""

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._stop: Callable[[], None] | None = None

    async def __aenter__(self) -> StoreChanges:
        """Subscribe."""
        self._wakeup = Wakeup()
        self._stop = self._store.watch(self._wakeup.set_from_thread)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Unsubscribe."""
        if self._stop is not None:
            self._stop()

    async def wait(self, at_most: float = LOOK_EVERY) -> None:
        """Return when something changed since the last wait, or after `at_most` seconds, at most one."""
        timer = asyncio.create_task(self._wake_after(min(at_most, LOOK_EVERY)))
        try:
            await self._wakeup.wait_and_clear()
        finally:
            timer.cancel()

    async def _wake_after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._wakeup.set()
