"""Steps that are taken beside an async handler, in tasks of their own, as `asyncio.gather` makes them.

One branch that asks, calls or fails unwinds the handler, while the others go on in the background. An attempt is not
over before they are: else their results would come too late to be kept, and the next attempt would take the same steps
beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ConcurrentSteps:
    """The steps of one attempt that have begun on a loop and not ended. `over` says that no more shall begin."""

    __slots__ = ("_tasks", "over")

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Future[None], asyncio.Task[Any] | None] = {}
        self.over = False

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self._tasks)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Note that a step is taken in between."""
        ended = asyncio.get_running_loop().create_future()
        self._tasks[ended] = asyncio.current_task()
        try:
            yield
        finally:
            del self._tasks[ended]
            ended.set_result(None)

    async def end(self, *, cancel: bool) -> None:
        """Let no more begin and wait for those under way, cancelled or not; who is cancelled meanwhile cancels them."""
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
        # A plain handler may have loops of its own, which are not ours to wait for.
        loop = asyncio.get_running_loop()
        return {ended: task for ended, task in self._tasks.items() if ended.get_loop() is loop}
