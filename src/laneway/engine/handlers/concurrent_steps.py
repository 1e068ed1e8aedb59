"""Steps that an async handler takes concurrently, in tasks of their own, as `asyncio.gather` makes them.

If one branch asks, calls or fails, the handler unwinds while the others go on. The attempt is over only when they are.
Otherwise their results would come too late to be kept, and the next attempt would take the same steps beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ConcurrentSteps:
    """The steps of one attempt that have begun on a loop and not ended. With `over`, no more may begin."""

    __slots__ = ("_tasks", "over")

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Future[None], asyncio.Task[Any] | None] = {}
        self.over = False

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self._tasks)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count the block as a running step."""
        ended = asyncio.get_running_loop().create_future()
        self._tasks[ended] = asyncio.current_task()
        try:
            yield
        finally:
            del self._tasks[ended]
            ended.set_result(None)

    async def end(self, *, cancel: bool) -> None:
        """Let no more begin, and wait for the running ones; cancel them if wanted, or if this call is cancelled."""
        self.over = True
        try:
            if not cancel:
                await self._ended()
        except asyncio.CancelledError:
            cancel = True
        if cancel:
            for task in self._here().values():
                if task is not None:
                    task.cancel()
            await self._ended()

    async def _ended(self) -> None:
        while here := self._here():
            await asyncio.wait(here)

    def _here(self) -> dict[asyncio.Future[None], asyncio.Task[Any] | None]:
        # A plain handler may have loops of its own; this one does not wait for them.
        loop = asyncio.get_running_loop()
        return {ended: task for ended, task in self._tasks.items() if ended.get_loop() is loop}
