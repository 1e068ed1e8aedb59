"""The cost of an idle worker."""

from __future__ import annotations

import asyncio
from time import process_time

from bench.plan import Plan
from bench.rows import Experiment, Round, Row, experiment
from bench.subjects import STORES, subject

SETTLE = 2.5  # seconds: between the ticks of a worker that does something each second and each fifth


def idle(store: str) -> Experiment:
    """Count the calls an idle worker makes, and the time it spends.

    `look` is no command: by its contract it is cheap and never waits. What it costs is in the row of CPU time.
    """

    @experiment(
        Row(
            name=f"idle.{store}",
            title=f"idle worker, commands: {STORES[store]}",
            unit="/s",
            better="less",
            must=1,
            aim=0.2,
        ),
        Row(
            name=f"idle.{store}.cpu",
            title=f"idle worker, CPU time per second: {STORES[store]}",
            unit="ms",
            better="less",
        ),
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        async with subject(plan, store) as laneway:
            worker = laneway.worker()
            work = asyncio.create_task(worker.run())
            await asyncio.sleep(SETTLE)
            before, start = commands(laneway.counted.calls), process_time()
            await asyncio.sleep(plan.idle)
            calls, spent = commands(laneway.counted.calls) - before, process_time() - start
            await worker.stop(0)
            await work
        return [[Round(calls / plan.idle)], [Round(spent / plan.idle * 1000)]]

    return measure


def commands(calls: dict[str, int]) -> int:
    return sum(number for name, number in calls.items() if name != "look")


EXPERIMENTS = tuple(map(idle, STORES))
