"""Waiting in tests: for signals, for conditions, and for a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from laneway import Receipt, Run, Scheduler
from laneway.core.records.states import RunState
from laneway.engine.worker.worker import _lingering
from laneway.testing import FakeClock

T = TypeVar("T")
IN_TIME = 10.0  # real seconds after which a signal that should have come is missed


async def soon(awaitable: Awaitable[T]) -> T:
    """Wait for a signal that comes by itself; fail if it does not."""
    return await asyncio.wait_for(awaitable, IN_TIME)


async def as_time_passes(clock: FakeClock, awaitable: Awaitable[T], *, step: float = 0.25) -> T:
    """Move the clock on until the awaited thing has come."""
    task = asyncio.ensure_future(awaitable)
    deadline = asyncio.get_running_loop().time() + IN_TIME
    try:
        while not task.done():
            assert asyncio.get_running_loop().time() < deadline, "time passed and nothing came"
            await clock.advance(step)
            # A store may work in threads of its own, which no turn of the loop waits for.
            await asyncio.wait({task}, timeout=0.002)
        return task.result()
    finally:
        task.cancel()


async def turns(number: int = 50) -> None:
    """Let the loop turn so often that whoever can go on has done so."""
    for _ in range(number):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that nothing signals; fail if it never does."""

    async def turning() -> None:
        while not condition():  # noqa: ASYNC110 - what a thread changes, or a store, sets no event
            await asyncio.sleep(0.001)

    await soon(turning())


async def passes(clock: FakeClock, seconds: float, *, step: float = 1.0) -> None:
    """Let time pass, and give stores and deciders that work in threads the time that they need."""
    end = clock.monotonic() + seconds
    while clock.monotonic() < end:
        await clock.advance(min(step, end - clock.monotonic()))
        await asyncio.sleep(0.002)


async def in_state(app: Scheduler, run: Receipt | str, state: RunState) -> Run:
    """Wait until a run is in a state that it does not end in; fail if it never is."""

    async def turning() -> Run:
        while (found := await app.get(run)).state is not state:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)
        return found

    return await soon(turning())


async def lingerers() -> None:
    """Wait for the workers that could not stop their last handlers; those have been let go by now."""
    here = asyncio.get_running_loop()
    await until(lambda: all(task.get_loop() is not here for task in _lingering))
