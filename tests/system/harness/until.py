"""Waiting for a fact of another process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE = 60.0  # seconds a fact may take before the test gives up on it


async def until(fact: Callable[[], bool | Awaitable[bool]], what: str, *, within: float = PATIENCE) -> float:
    """Wait for a fact; return the seconds it took, or fail and name it."""
    began = time.monotonic()
    while True:
        # The fact is another process's, which cannot ring us.
        known = fact()
        if known if isinstance(known, bool) else await known:
            return time.monotonic() - began
        assert time.monotonic() - began < within, f"not within {within:g} s: {what}"
        await asyncio.sleep(0.01)
