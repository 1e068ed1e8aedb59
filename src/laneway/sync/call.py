"""One blocking call on its way through the loop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from contextvars import Context
from typing import Any, Generic, TypeVar

from laneway.errors import StoreUnavailable

T = TypeVar("T")
LOOK_EVERY = 0.5  # seconds


class Call(Generic[T]):
    """The future that a caller waits for (`answer`), and the task on the loop (`task`); either may end first.

    *Race*: the loop answers, the caller stops waiting, and another thread closes the loop. The first of them sets the
    answer; the others find it set.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], context: Context) -> None:
        self.context = context
        self.answer: Future[T] = Future()
        self.task: asyncio.Task[T] | None = None
        self._make = make
        self._muted = self._cancelled = False

    def begin(self) -> None:
        """Start the task, on the loop, unless the caller has stopped waiting."""
        if not self.answer.done():
            self.task = asyncio.get_running_loop().create_task(self._make(), context=self.context)
            self.task.add_done_callback(self._ended)

    def wait(self, within: float | None) -> bool:
        """Wait for the answer, for `within` seconds at most; return whether it came. On the caller's thread."""
        # Race: a signal just before the main thread begins to wait would be handled only after the wait.
        look_every = LOOK_EVERY if threading.current_thread() is threading.main_thread() else None
        # Not the injected clock: a test that moves it could not wake a waiting thread.
        until = math.inf if within is None else time.monotonic() + within
        while not self.answer.done() and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                self.answer.exception(look_every if left == math.inf else min(left, look_every or left))
        return self.answer.done()

    def give_up(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Stop waiting and cancel the call, from the caller's thread. Return False if it was answered already."""
        if not self.answer.cancel():
            return False
        self._cancel_on(loop)
        return True

    def cut_off(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raise in the caller that the loop is being closed, and cancel the call. From any thread."""
        # The answer is set here and not by the cancelled task: a blocked loop must not hold up the caller.
        with contextlib.suppress(InvalidStateError):
            self.answer.set_exception(_closed())
        self._cancel_on(loop)

    def mute(self) -> None:
        """Do not answer the caller any more."""
        self._muted = True

    def _cancel_on(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its tasks are gone
            loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        # Once: a second cancellation would interrupt a worker that is stopping because of the first.
        if self.task is not None and not self._cancelled:
            self._cancelled = True
            self.task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        error = _closed() if task.cancelled() else task.exception()
        if self._muted:
            return
        with contextlib.suppress(InvalidStateError):
            if error is None:
                self.answer.set_result(task.result())
            else:
                self.answer.set_exception(error)


def _closed() -> StoreUnavailable:
    return StoreUnavailable("app.sync was closed during this call; it may have taken effect", maybe_done=True)
