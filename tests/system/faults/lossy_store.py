"""A scheduler whose store loses calls and replies."""

from __future__ import annotations

from random import Random

from laneway import Scheduler
from laneway.engine.client.client import Client
from laneway.engine.common.clock import SystemClock
from tests.support.lossy_store import LossyStore


class HastyClock(SystemClock):
    """A clock whose sleeps take a twentieth of their time, so that repeated calls take no minutes."""

    async def sleep(self, seconds: float) -> None:
        """Sleep, briefly."""
        await super().sleep(seconds / 20)


def make_lossy(app: Scheduler, random: Random) -> LossyStore:
    """Let the store of a scheduler lose calls; its `chance` is 0 until the test sets it."""
    # ruff: noqa: SLF001 - the app is made before a worker knows its faults
    store = LossyStore(app._store, random=random)
    app._store = store
    app._client = Client(store, HastyClock())
    return store
