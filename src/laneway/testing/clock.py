"""A clock that is moved by hand, so that no test waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any

from laneway.core.common.instants import MICRO, SECOND

START = 1_767_225_600 * SECOND  # 2026-01-01, midnight UTC
QUIET = 20  # turns of the loop after which whoever was woken is taken to have come to rest


class FakeClock:
    """A `Clock` that stands still until it is told to move.

    `advance` moves wall clock and monotonic clock together and wakes sleepers in the order of their times. `step` sets
    the wall clock alone, as an operator or a time server would. One event loop at a time may sleep on it; reading it
    is safe from any thread.
    """

    def __init__(self, start: int = START) -> None:
        self._wall = start
        self._elapsed = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> int:
        """Return the wall clock, in microseconds since 1970 (UTC)."""
        return self._wall

    def monotonic(self) -> float:
        """Return the seconds by which the clock was advanced since it was made."""
        return self._elapsed / SECOND

    @property
    def sleepers(self) -> int:
        """How many sleep on the clock."""
        return sum(not sleeper.done() for _, _, sleeper in self._sleepers)

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Return once the clock was advanced so far; at the loop's next turn if there is nothing to wait for.

        Counted from the call: a task that is to sleep begins a turn later, and the clock may have moved by then.
        """
        if seconds <= 0:
            return asyncio.sleep(0)
        sleeper = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._elapsed + max(1, round(seconds * SECOND)), next(self._order), sleeper))
        return _woken(sleeper)

    async def advance(self, by: timedelta | float) -> None:
        """Move both clocks on, stopping at every sleeper's time to wake it and let the loop run."""
        goal = self._elapsed + _micros(by)
        if goal < self._elapsed:
            raise ValueError(f"cannot advance by {by}: monotonic time never goes back; use step for the wall clock")
        await _let_run()
        while self._sleepers and self._sleepers[0][0] <= goal:
            at, _, sleeper = heappop(self._sleepers)
            self._move_to(at)
            if not sleeper.done():
                sleeper.set_result(None)
                await _let_run()
        self._move_to(goal)
        await _let_run()

    def step(self, by: timedelta | float) -> None:
        """Set the wall clock on, or back, by so much; monotonic time and sleepers know nothing of it."""
        self._wall += _micros(by)

    def _move_to(self, elapsed: int) -> None:
        self._wall += elapsed - self._elapsed
        self._elapsed = elapsed


def _micros(by: timedelta | float) -> int:
    return by // MICRO if isinstance(by, timedelta) else round(by * SECOND)


async def _woken(sleeper: asyncio.Future[None]) -> None:
    await sleeper


async def _let_run() -> None:
    for _ in range(QUIET):
        await asyncio.sleep(0)
