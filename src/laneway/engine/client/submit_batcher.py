"""Puts the submissions that callers of one event loop make within one tick into one call to the store.

There is no timer: a caller that comes alone does not wait for others.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Awaitable, Callable, Sequence

from laneway.core.records.run import NewRun, Receipt

BATCH = 1000  # runs that one call to the store submits at most

Send = Callable[[Sequence[NewRun]], Awaitable[list[Receipt]]]
Waiting = list[tuple[NewRun, Future[Receipt]]]


class SubmitBatcher:
    """Sends submissions in batches and gives each caller its receipt; `send` is the call to the store."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._tick: tuple[AbstractEventLoop | None, Waiting] = (None, [])  # what is being collected, on which loop
        self._sending: set[asyncio.Task[None]] = set()  # the loop keeps only weak references to tasks

    def submit(self, new: NewRun) -> Future[Receipt]:
        """Submit a run together with the others of this tick."""
        loop = asyncio.get_running_loop()
        # Race: loops of several threads replace each other's tick here, so it is read once. Each loop sends its own.
        # What an abandoned loop has not sent was never acknowledged, and nobody waits for it.
        owner, waiting = self._tick
        if owner is not loop:
            waiting = []
            self._tick = loop, waiting
            loop.call_soon(self._end_tick, waiting)
        receipt: Future[Receipt] = loop.create_future()
        waiting.append((new, receipt))
        return receipt

    def _end_tick(self, waiting: Waiting) -> None:
        if self._tick[1] is waiting:
            self._tick = None, []
        for first in range(0, len(waiting), BATCH):
            task = asyncio.get_running_loop().create_task(self._send_batch(waiting[first : first + BATCH]))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send_batch(self, waiting: Waiting) -> None:
        # A caller that is cancelled by now has no run id yet, so its run must not be stored.
        waiting = [(new, receipt) for new, receipt in waiting if not receipt.cancelled()]
        if not waiting:
            return
        try:
            receipts = await self._send([new for new, _ in waiting])
        except asyncio.CancelledError:
            for _, future in waiting:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, each caller must get it
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), receipt in zip(waiting, receipts, strict=True):
            if not future.done():
                future.set_result(receipt)
