"""What callers of a loop ask for within one tick goes to the store in one call.

No timer: who comes alone does not wait for company. Submissions are made when their tick is over, those that are alike
all at once: one by one that takes the loop three times as long.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import compress, starmap
from typing import Any

from laneway.core.records.run import NewRun, Receipt
from laneway.engine.client.submissions import Asked
from laneway.engine.handlers.task import Task
from laneway.errors import BadArguments

BATCH = 1000  # runs one call to the store submits at most

AnyTask = Task[..., Any]
# Makes submissions of arguments, if a task is given, or of what is `Asked`; raises BadArguments if any is wrong.
Make = Callable[[Sequence[Any], AnyTask | None], Sequence[NewRun]]
Send = Callable[[Sequence[NewRun]], Awaitable[list[Receipt]]]

# What tells loops apart: each sets hooks of its own for its thread while it runs. Before Python 3.12 `get_running_loop`
# asks the system which process this is, and takes twice as long.
_mark: Callable[[], Any] = get_running_loop if sys.version_info >= (3, 12) else sys.get_asyncgen_hooks


def _mark_of(loop: asyncio.AbstractEventLoop) -> object:
    """Return what `_mark` returns where this loop runs, and nowhere else; None if its hooks are not its own."""
    mark = _mark()
    return mark if mark is loop or getattr(mark.firstiter, "__self__", None) is loop else None


class Waiting:
    """What callers of a loop have asked for since its last tick, and their futures.

    While all of it is of one `task` and has nothing but arguments, those are what is `asked`: nobody has to compare.
    """

    __slots__ = ("asked", "futures", "loop", "mark", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, task: AnyTask | None = None) -> None:
        self.loop, self.task = loop, task
        self.mark = None if loop is None else _mark_of(loop)
        self.asked: list[Any] = []
        self.futures: list[Future[Receipt]] = []

    def mix(self, asked: Any, task: AnyTask | None) -> Asked:
        """Have each of them named with its task, since they differ; return this one so."""
        if self.task is not None:
            self.asked = [(self.task, args) for args in self.asked]
            self.task = None
        return asked if task is None else (task, asked)


class SubmitBatcher:
    """Gathers what is asked for, has it made and sent, and tells each caller what became of it."""

    def __init__(self, make: Make, send: Send) -> None:
        self._make, self._send = make, send
        self._waiting = Waiting()
        self._sending: set[asyncio.Task[None]] = set()

    def submit(self, asked: Asked | dict[str, Any], task: AnyTask | None = None) -> Future[Receipt]:
        """Submit a run, together with others of this tick; of a task, by its arguments, if it has nothing else.

        They are the caller's no more.
        """
        waiting = self._waiting
        if _mark() != waiting.mark and get_running_loop() is not waiting.loop:
            waiting = self._begin(get_running_loop(), task)
        receipt: Future[Receipt] = Future(loop=waiting.loop)  # what `create_future` does by a call more
        if waiting.task is not task:
            asked = waiting.mix(asked, task)
        waiting.asked.append(asked)
        waiting.futures.append(receipt)
        return receipt

    def _begin(self, loop: asyncio.AbstractEventLoop, task: AnyTask | None) -> Waiting:
        # Race: loops of several threads take this place from each other, and each sends what it has gathered. What an
        # abandoned loop left unsent was never acknowledged, and nobody waits for it.
        waiting = self._waiting = Waiting(loop, task)
        loop.call_soon(self._end_tick, waiting)
        return waiting

    def _end_tick(self, waiting: Waiting) -> None:
        if self._waiting is waiting:
            self._waiting = Waiting()
        asked, futures = waiting.asked, waiting.futures
        for first in range(0, len(asked), BATCH):
            part = slice(first, first + BATCH)
            sending = self._send_batch(asked[part], futures[part], waiting.task)
            task = get_running_loop().create_task(sending)
            # The loop keeps only weak references to tasks.
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send_batch(self, asked: Sequence[Any], futures: list[Future[Receipt]], task: AnyTask | None) -> None:
        if any(map(Future.cancelled, futures)):
            # Who has stopped waiting by now was never told of a run, and shall leave none behind.
            here = [not future.cancelled() for future in futures]
            asked, futures = list(compress(asked, here)), list(compress(futures, here))
        try:
            batch, futures = self._made(asked, futures, task)
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
        _tell(futures, receipts)

    def _made(
        self, asked: Sequence[Any], futures: list[Future[Receipt]], task: AnyTask | None
    ) -> tuple[Sequence[NewRun], list[Future[Receipt]]]:
        """Return those submissions that can be made, and who waits for them; the others hear what is wrong."""
        with contextlib.suppress(BadArguments):
            return self._make(asked, task), futures
        batch, waiting = list[NewRun](), list[Future[Receipt]]()
        for each, future in zip(asked, futures, strict=True):
            try:
                batch += self._make([each], task)
                waiting.append(future)
            except BadArguments as error:
                if not future.done():
                    future.set_exception(error)
        return batch, waiting


def _tell(futures: list[Future[Receipt]], receipts: list[Receipt]) -> None:
    """Tell all who still wait what became of their submissions."""
    try:
        # No loop of our own, and no look at who has stopped waiting: few do.
        deque(starmap(Future.set_result, zip(futures, receipts, strict=True)), maxlen=0)
    except asyncio.InvalidStateError:
        for future, receipt in zip(futures, receipts, strict=True):
            if not future.done():
                future.set_result(receipt)
