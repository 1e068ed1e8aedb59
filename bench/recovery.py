"""How soon the runs of a killed worker are executed by another one.

`python -m bench.recovery URL` is the worker that is killed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.plan import ROOT, Plan
from bench.rows import Experiment, Round, Row, experiment
from bench.subjects import STORES, fresh_url
from laneway import Scheduler

RUNS = 10
STARTED = b"started\n"


def recovery(store: str) -> Experiment:
    """Time from the kill of a worker to the start of the last of its runs by another, with every setting as it is."""

    @experiment(
        Row(
            name=f"recovery.{store}",
            title=f"recovery after kill -9 on the same machine, the last of ten runs: {STORES[store]}",
            unit="s",
            better="less",
            must=3,
            aim=1,
        )
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        return [[Round(await recovered(plan, store)) for _ in range(plan.rounds)]]

    return measure


@contextmanager
def quiet() -> Iterator[None]:
    """Log no warnings about runs that are taken over: here that is expected."""
    logger = logging.getLogger("laneway")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


async def recovered(plan: Plan, store: str) -> float:
    with quiet(), fresh_url(plan, store) as url:
        async with Scheduler(url) as app:
            left, all_started = RUNS, asyncio.Event()

            async def hold() -> None:
                nonlocal left
                left -= 1
                if not left:
                    all_started.set()

            app.task(hold)
            await app.submit_many([("hold", {})] * RUNS)
            victim = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bench.recovery", url), cwd=ROOT, stdout=asyncio.subprocess.PIPE
            )
            assert victim.stdout is not None
            for _ in range(RUNS):
                assert await victim.stdout.readline() == STARTED
            async with app.running():
                victim.kill()
                killed_at = time.monotonic()
                await victim.wait()
                await asyncio.wait_for(all_started.wait(), 60)
                return time.monotonic() - killed_at


async def hold_on(url: str) -> None:
    """Execute runs that never end, and print a line when each has started."""
    async with Scheduler(url) as app:

        async def hold() -> None:
            sys.stdout.buffer.write(STARTED)
            sys.stdout.buffer.flush()
            await asyncio.Event().wait()

        app.task(hold)
        await app.work()


EXPERIMENTS = tuple(recovery(store) for store in ("sqlite", "redis", "postgres"))

if __name__ == "__main__":
    asyncio.run(hold_on(sys.argv[1]))
