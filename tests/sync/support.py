"""What the tests of the blocking face share: threads with answers, and coroutines that tell where they are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
IN_TIME = 10.0  # real seconds after which something that should have come is missed


def in_thread(call: Callable[[], T]) -> Future[T]:
    """Make the call on a thread of its own; return the future of its answer."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


class Endless:
    """A coroutine function that goes on until it is cancelled, and tells."""

    def __init__(self) -> None:
        self.begun, self.cancelled = threading.Event(), threading.Event()

    async def __call__(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class TellingClock:
    """The system's clock, which tells that somebody sleeps on it, and that a sleeper was cancelled."""

    def __init__(self) -> None:
        self.asleep, self.cancelled = threading.Event(), threading.Event()

    def now(self) -> int:
        return 1_000_000

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        self.asleep.set()
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
