"""Waiting in tests: for signals, for conditions, and for a clock that is moved by hand.

A wait ends when its condition holds, however busy the machine is, and fails when `IN_TIME` is over. This is the only
module of the tests outside tests/system that sleeps (tests/architecture/test_waits.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from types import CoroutineType
from typing import Any, TypeVar

from laneway import Receipt, Run, Scheduler
from laneway.core.records.states import RunState
from laneway.engine.worker.worker import _lingering
from laneway.testing import FakeClock

T = TypeVar("T")
IN_TIME = 30.0  # real seconds after which a signal that should have come is missed
POLL = 0.001  # real seconds between two looks at what nothing signals
TURN = 0.01  # real seconds between two looks of a handler that polls
QUIET = 20  # turns of the loop after which all that could go on has gone on
BUSY = 2.0  # real seconds that a store may take to answer before time passes all the same


async def soon(awaitable: Awaitable[T]) -> T:
    """Wait for a signal that comes by itself; fail if it does not."""
    return await asyncio.wait_for(awaitable, IN_TIME)


async def as_time_passes(clock: FakeClock, awaitable: Awaitable[T], *, step: float = 0.25) -> T:
    """Move the clock on, step by step, until the awaited thing has come; fail if it never does."""
    task = asyncio.ensure_future(awaitable)
    deadline = asyncio.get_running_loop().time() + IN_TIME
    try:
        while not task.done():
            assert asyncio.get_running_loop().time() < deadline, "time passed and nothing came"
            await clock.advance(step)
            await asyncio.wait({task}, timeout=POLL)  # handlers and conditions may be in threads
            await stores_answered()
        return task.result()
    finally:
        task.cancel()


async def turns(number: int = 50) -> None:
    """Let the loop turn so often that all that can go on has done so."""
    for _ in range(number):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that nothing signals; fail if it never does."""

    async def look() -> bool:
        return condition()

    await eventually(look)


async def eventually(look: Callable[[], Awaitable[T]], accepted: Callable[[T], bool] = bool) -> T:
    """Look again and again until what is seen is accepted, and return it; fail if it never is."""

    async def looking() -> T:
        while not accepted(found := await look()):  # noqa: ASYNC110 - what a store or a thread changes sets no event
            await asyncio.sleep(POLL)
        return found

    return await soon(looking())


async def between_looks() -> None:
    """Pause as an async handler does that looks again and again whether to go on."""
    await asyncio.sleep(TURN)


def thread_between_looks() -> None:
    """Pause as a plain handler does that looks again and again whether to go on."""
    time.sleep(TURN)


async def timers(seconds: float) -> None:
    """Wait until timers of the loop that end within `seconds` of real time have ended.

    A loop's timers end in the order of their times, so this does not depend on how busy the machine is.
    """
    await asyncio.sleep(seconds)


async def passes(clock: FakeClock, seconds: float, *, step: float = 1.0) -> None:
    """Let time pass, and after each step wait until no call to a store is under way."""
    end = clock.monotonic() + seconds
    while clock.monotonic() < end:
        await clock.advance(min(step, end - clock.monotonic()))
        await asyncio.sleep(POLL)  # handlers and conditions may be in threads
        await stores_answered()


async def in_state(app: Scheduler, run: Receipt | str, state: RunState) -> Run:
    """Wait until a run is in a state that it does not end in; fail if it never is."""
    return await eventually(lambda: app.get(run), lambda found: found.state is state)


async def lingerers() -> None:
    """Wait for the workers that could not stop their last handlers; those have been let go by now."""
    here = asyncio.get_running_loop()
    await until(lambda: all(task.get_loop() is not here for task in _lingering))


async def stores_answered() -> None:
    """Wait until no task of this loop waits inside a store.

    A store may work in threads, and no turn of the loop waits for those.
    """
    deadline = asyncio.get_running_loop().time() + BUSY
    quiet = 0
    while quiet < QUIET and asyncio.get_running_loop().time() < deadline:
        if any(map(_is_in_a_store, asyncio.all_tasks())):
            quiet = 0
            await asyncio.sleep(POLL)
        else:
            quiet += 1
            await asyncio.sleep(0)


def _is_in_a_store(task: asyncio.Task[Any]) -> bool:
    return any("/laneway/stores/" in coroutine.cr_code.co_filename for coroutine in _awaited_by(task))


def _awaited_by(task: asyncio.Task[Any]) -> Iterator[CoroutineType[Any, Any, Any]]:
    """Yield the coroutine of a task, the one that it awaits, the one that this awaits, and so on."""
    coroutine: object = task.get_coro()
    while isinstance(coroutine, CoroutineType):
        yield coroutine
        coroutine = coroutine.cr_await
