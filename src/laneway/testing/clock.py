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
QUIET = 20  # turns of the loop in which woken tasks are expected to finish their work


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
        """Return the seconds by which the clock was advanced so far."""
        return self._elapsed / SECOND

    @property
    def sleepers(self) -> int:
        """The number of tasks that sleep on the clock."""
        return sum(not sleeper.done() for _, _, sleeper in self._sleepers)

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Return once the clock was advanced by `seconds`; at the loop's next turn if they are 0 or less.

        The time counts from the call, not from the first `await`: the clock may move between both.
        """
        if seconds <= 0:
            return asyncio.sleep(0)
        sleeper = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._elapsed + max(1, round(seconds * SECOND)), next(self._order), sleeper))
        return _woken(sleeper)

    async def advance(self, by: timedelta | float) -> None:
        """Advance both clocks; stop at each sleeper's time to wake it and let the loop run."""
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
        """Move the wall clock forward or back; monotonic time and sleepers are not affected."""
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
