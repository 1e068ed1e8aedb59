"""A worker that ends after so many attempts, so that what its handlers leak is bounded.

The limit is kept at the store's door: the worker's own loop knows nothing of it, and pays nothing for it where there is
none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from laneway.core.lifecycle.step import Step, StepReply
from laneway.ports.store import Store


class AttemptQuota:
    """A store that lets its worker claim `attempts` runs in all. Once they are claimed, `spent` is called, on the loop.

    It is a `Store` in everything but its type: what it does not change it passes on.
    """

    def __init__(self, store: Store, attempts: int, spent: Callable[[], None]) -> None:
        self._store, self._left, self._spent = store, attempts, spent
        self._asked: tuple[str, int] | None = None
        self._room = 0

    def __getattr__(self, name: str) -> Any:
        """Pass everything else on."""
        return getattr(self._store, name)

    async def step(self, step: Step) -> StepReply:
        """Claim no more than what is left."""
        if (step.incarnation, step.call) != self._asked:
            # A call that is repeated must be the same call: what it claimed is not known yet, and so not counted yet.
            self._asked, self._room = (step.incarnation, step.call), min(step.room, self._left)
        room = self._room
        reply = await self._store.step(msgspec.structs.replace(step, room=room, park=step.park and room > 0))
        if reply.claimed:
            self._left -= len(reply.claimed)
            if not self._left:
                # Not before the worker has started what it has just claimed: one that stops gives new claims back.
                asyncio.get_running_loop().call_soon(self._spent)
        return reply
