"""Faults for a scheduler of a test process: a store that loses calls and replies."""

from __future__ import annotations

from random import Random

from laneway import Scheduler
from laneway.engine.client.client import Client
from laneway.engine.common.clock import SystemClock
from tests.support.lossy_store import LossyStore


class HastyClock(SystemClock):
    """A clock whose sleepers wait a twentieth of what they ask for: so that repeating calls takes no minutes."""

    async def sleep(self, seconds: float) -> None:
        """Sleep, briefly."""
        await super().sleep(seconds / 20)


def put_behind_lossy_line(app: Scheduler, random: Random) -> LossyStore:
    """Put the scheduler's store behind a line that loses what its `chance` says: nothing, until that is set."""
    store = LossyStore(app._store, random=random)
    app._store = store
    app._client = Client(store, HastyClock())
    return store
