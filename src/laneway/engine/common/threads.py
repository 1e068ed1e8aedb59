"""Threads for services, so that a blocked event loop does not block them too."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def on_thread(name: str, work: Callable[[threading.Event], None]) -> None:
    """Run `work` on a daemon thread until it ends or this call is cancelled; raise what it raised.

    `work` gets an event that is set when it should end. Nobody waits until it does.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    stopped = threading.Event()

    def tell(error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result(None) if error is None else ended.set_exception(error)

    def live() -> None:
        error: BaseException | None = None
        try:
            work(stopped)
        except BaseException as raised:  # noqa: BLE001  # whatever ends the thread must be raised
            # A future cannot carry StopIteration, and SystemExit in a service must not end the whole process.
            carried = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if carried else RuntimeError(f"{type(raised).__name__} ended the thread {name}")
        with contextlib.suppress(RuntimeError):  # the loop has closed, and nobody is left to tell
            loop.call_soon_threadsafe(tell, error)

    threading.Thread(target=live, name=name, daemon=True).start()
    try:
        await ended
    finally:
        stopped.set()


async def result_on_thread(name: str, ask: Callable[[], T]) -> T:
    """Return what `ask` returns; it is called on a daemon thread of its own.

    The loop's own threads are few, and handlers may occupy all of them.
    """
    said: list[T] = []
    await on_thread(name, lambda _: said.append(ask()))
    return said[0]


def from_thread(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> bool:
    """Make a call on the loop's thread if the loop is open; tell whether it is."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        logging.getLogger("laneway.worker").debug("the loop has closed; the call is dropped")
        return False
    return True


def is_on(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether the caller runs on this loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
