"""What callers of a loop ask for within one tick goes to the store in one call.

No timer: who comes alone does not wait for company. Submissions are made when their tick is over, those that are alike
all at once: one by one that takes the loop three times as long.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from itertools import compress
from operator import methodcaller

from laneway.core.run import NewRun, Receipt
from laneway.engine.submissions import Asked
from laneway.errors import BadArguments

BATCH = 1000  # runs one call to the store submits at most

Make = Callable[[Sequence[Asked]], Sequence[NewRun]]  # raises BadArguments for those that cannot be made
Send = Callable[[Sequence[NewRun]], Awaitable[list[Receipt]]]
_is_cancelled = methodcaller("cancelled")


class Waiting:
    """What callers of a loop have asked for since its last tick, and their futures."""

    __slots__ = ("asked", "futures", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self.asked: list[Asked] = []
        self.futures: list[asyncio.Future[Receipt]] = []


class Gathering:
    """Gathers what is asked for, has it made and sent, and tells each caller what became of it."""

    def __init__(self, make: Make, send: Send) -> None:
        self._make, self._send = make, send
        self._waiting = Waiting(None)
        self._sending: set[asyncio.Task[None]] = set()

    def submit(self, asked: Asked) -> asyncio.Future[Receipt]:
        """Submit a run, together with others of this tick."""
        loop, waiting = asyncio.get_running_loop(), self._waiting
        if waiting.loop is not loop:
            # Race: loops of several threads take this place from each other, and each sends what it has gathered. What
            # an abandoned loop left unsent was never acknowledged, and nobody waits for it.
            waiting = self._waiting = Waiting(loop)
            loop.call_soon(self._end_tick, waiting)
        receipt: asyncio.Future[Receipt] = loop.create_future()
        waiting.asked.append(asked)
        waiting.futures.append(receipt)
        return receipt

    def _end_tick(self, waiting: Waiting) -> None:
        if self._waiting is waiting:
            self._waiting = Waiting(None)
        asked, futures = waiting.asked, waiting.futures
        for first in range(0, len(asked), BATCH):
            part = slice(first, first + BATCH)
            task = asyncio.get_running_loop().create_task(self._send_batch(asked[part], futures[part]))
            # The loop keeps only weak references to tasks.
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send_batch(self, asked: Sequence[Asked], futures: list[asyncio.Future[Receipt]]) -> None:
        if any(map(_is_cancelled, futures)):
            # Who has stopped waiting by now was never told of a run, and shall leave none behind.
            here = [not future.cancelled() for future in futures]
            asked, futures = list(compress(asked, here)), list(compress(futures, here))
        try:
            batch, futures = self._made(asked, futures)
            receipts = await self._send(batch) if batch else []
        except asyncio.CancelledError:
            for future in futures:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the callers must hear of it
            for future in futures:
                if not future.done():
                    future.set_exception(error)
            return
        for future, receipt in zip(futures, receipts, strict=True):
            if not future.done():
                future.set_result(receipt)

    def _made(
        self, asked: Sequence[Asked], futures: list[asyncio.Future[Receipt]]
    ) -> tuple[Sequence[NewRun], list[asyncio.Future[Receipt]]]:
        """Return those submissions that can be made, and who waits for them; the others hear what is wrong."""
        with contextlib.suppress(BadArguments):
            return self._make(asked), futures
        batch, waiting = list[NewRun](), list[asyncio.Future[Receipt]]()
        for each, future in zip(asked, futures, strict=True):
            try:
                batch += self._make([each])
                waiting.append(future)
            except BadArguments as error:
                if not future.done():
                    future.set_exception(error)
        return batch, waiting
