"""Deadlines of handlers, time-outs and graces: one shared task instead of a timer per run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from laneway.engine.attempts.running_attempt import RunningAttempt
from laneway.ports.clock import Clock

Passed = Callable[[RunningAttempt], None]


class Deadlines:
    """Makes a call for each attempt that has not ended by its deadline."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, RunningAttempt, Passed]] = []  # the number only breaks ties
        self._added = 0
        self._ended = 0
        self._sweeper: asyncio.Task[None] | None = None
        self._wakes_at = 0.0

    def add(self, attempt: RunningAttempt, seconds: float, passed: Passed) -> None:
        """Call `passed` with this attempt after so many seconds, unless it has ended by then."""
        deadline = self._clock.monotonic() + seconds
        self._added += 1
        heappush(self._heap, (deadline, self._added, attempt, passed))
        if self._sweeper is None or self._sweeper.done() or deadline < self._wakes_at:
            self._sweep_at(self._heap[0][0])

    def ended(self) -> None:
        """Record that an attempt with a deadline has ended. Now and then remove those that have."""
        self._ended += 1
        if self._ended > 64 and self._ended > len(self._heap) // 2:
            self._heap = [item for item in self._heap if not _has_ended(item[2])]
            heapify(self._heap)
            self._ended = 0

    def close(self) -> None:
        """Cancel all deadlines."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._heap.clear()

    def _sweep_at(self, deadline: float) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._wakes_at = deadline
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep(), name="laneway-deadlines")

    async def _sweep(self) -> None:
        while self._heap:
            self._wakes_at = self._heap[0][0]
            await self._clock.sleep(max(0.0, self._wakes_at - self._clock.monotonic()))
            now = self._clock.monotonic()
            while self._heap and self._heap[0][0] <= now:
                _, _, attempt, passed = heappop(self._heap)
                if not _has_ended(attempt):
                    passed(attempt)


def _has_ended(attempt: RunningAttempt) -> bool:
    return attempt.handle is None or attempt.handle.done()
