"""Time, injected: the engine and the stores read no other clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for waiting. `laneway.testing.FakeClock` moves by hand."""

    def now(self) -> int:
        """Return the wall clock, in microseconds since 1970 (UTC)."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds of this clock."""
        ...
