"""A worker that ends after a number of attempts, so that memory leaks of its handlers stay bounded.

The limit is applied between worker and store: the worker's loop has no code for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from laneway.core.lifecycle.step import Step, StepReply
from laneway.ports.store import Store


class AttemptQuota:
    """A store that lets its worker claim at most `attempts` runs, then calls `spent` on the loop.

    It is a `Store` in everything but its type: all other calls go to the store behind it.
    """

    def __init__(self, store: Store, attempts: int, spent: Callable[[], None]) -> None:
        self._store, self._left, self._spent = store, attempts, spent
        self._asked: tuple[str, int] | None = None
        self._room = 0

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the store behind it."""
        return getattr(self._store, name)

    async def step(self, step: Step) -> StepReply:
        """Make the step, with no more room than is left."""
        if (step.incarnation, step.call) != self._asked:
            # A repeated call must be the same call. What it claimed is not known yet, and so not counted yet.
            self._asked, self._room = (step.incarnation, step.call), min(step.room, self._left)
        room = self._room
        reply = await self._store.step(msgspec.structs.replace(step, room=room, park=step.park and room > 0))
        if reply.claimed:
            self._left -= len(reply.claimed)
            if not self._left:
                # Later, when the worker has started what it just claimed: a worker that stops gives new claims back.
                asyncio.get_running_loop().call_soon(self._spent)
        return reply
