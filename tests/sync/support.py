"""Helpers for tests of the blocking face: calls in threads, and coroutines that signal what they do."""

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
    """A coroutine function that goes on until it is cancelled. It signals both."""

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
    """The system's clock. It signals that a sleep has begun and that a sleep was cancelled."""

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
