"""Time-outs: one shared sweep instead of a timer per run."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush

from laneway.engine.executor import Execution, Stop
from laneway.ports.clock import Clock


class Deadlines:
    """Stops handlers that run longer than their task allows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Execution]] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._wakes_at = 0.0

    def add(self, execution: Execution, timeout: int) -> None:
        """Stop this execution after `timeout` microseconds, unless it has ended by then."""
        execution.deadline = self._clock.monotonic() + timeout / 1_000_000
        heappush(self._heap, (execution.deadline, execution.run.number, execution))
        if self._sweeper is None or self._sweeper.done() or execution.deadline < self._wakes_at:
            self._sweep_at(self._heap[0][0])

    def close(self) -> None:
        """Stop nobody any more."""
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
                execution = heappop(self._heap)[2]
                if execution.handle is not None and not execution.handle.done():
                    execution.stop(Stop.TIMED_OUT)
