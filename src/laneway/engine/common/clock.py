"""The system's clock."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Wall-clock and monotonic time of this machine."""

    def now(self) -> int:
        """Return microseconds since 1970."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds)
