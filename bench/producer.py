"""The other process of the pick-up row: `python -m bench.producer URL COUNT PAUSE` submits runs one at a time."""

from __future__ import annotations

import asyncio
import sys
import time

from laneway import Scheduler


async def stamp(sent: float) -> None:
    """Stand for the worker's handler of that name."""


async def produce(url: str, count: int, pause: float) -> None:
    """Submit one run to warm up, then `count` more."""
    async with Scheduler(url) as app:
        app.task(stamp)
        for _ in range(count + 1):
            await app.submit("stamp", {"sent": time.monotonic()})
            await asyncio.sleep(pause)


if __name__ == "__main__":
    asyncio.run(produce(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
