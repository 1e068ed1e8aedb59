"""Events: the cost of a run with many events, and the delay to many followers."""

from __future__ import annotations

import asyncio
import time

from bench.latency import in_ms, percentiles
from bench.plan import Plan
from bench.rows import Experiment, Round, Row, experiment
from bench.subjects import STORES, subject
from laneway import Context

EVENTS = 1000
FOLLOWERS = 1000
PAUSE = 0.1  # seconds between two events: the followers are idle again


def trips(store: str) -> Experiment:
    """Calls of `step` for a run that emits a thousand events and yields to the loop after each."""

    @experiment(
        Row(
            name=f"events.trips.{store}",
            title=f"round trips for 1,000 events of one run: {STORES[store]}",
            unit="calls",
            better="less",
            must=20,
            aim=10,
        )
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        return [[Round(await steps_for_events(plan, store)) for _ in range(plan.rounds)]]

    return measure


async def steps_for_events(plan: Plan, store: str) -> int:
    async def talk(*, ctx: Context) -> None:
        for number in range(EVENTS):
            ctx.emit("tick", number)
            await asyncio.sleep(0)

    async with subject(plan, store) as laneway:
        await laneway.app.task(talk).submit()
        await laneway.worker().run(until_drained=True)
        return laneway.counted.calls["step"]


def followers(store: str) -> Experiment:
    """The time from `ctx.emit` to each of a thousand followers in one process, worker included."""
    title = f"event of a run with 1,000 followers, from emit: {STORES[store]}"

    @experiment(
        Row(name=f"events.followers.{store}.p50", title=f"{title}, p50", unit="ms", better="less"),
        Row(name=f"events.followers.{store}.p99", title=f"{title}, p99", unit="ms", better="less", must=50, aim=35),
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        return percentiles([await arrivals(plan, store) for _ in range(plan.rounds)])

    return measure


async def arrivals(plan: Plan, store: str) -> list[float]:
    notes: list[tuple[float, float]] = []
    everybody_is_there = asyncio.Event()

    async def beat(*, ctx: Context) -> None:
        await everybody_is_there.wait()
        for _ in range(plan.samples):
            await asyncio.sleep(PAUSE)
            ctx.emit("beat", time.monotonic())

    async with subject(plan, store) as laneway:
        receipt = await laneway.app.task(beat).submit()

        async def follow(here: asyncio.Event) -> None:
            async for event in laneway.app.events(receipt):
                here.set()
                if event.kind == "beat":
                    notes.append((event.data, time.monotonic()))

        async with laneway.app.running():
            here = [asyncio.Event() for _ in range(FOLLOWERS)]
            following = [asyncio.create_task(follow(each)) for each in here]
            for each in here:
                await each.wait()
            everybody_is_there.set()
            await asyncio.gather(*following)
    assert len(notes) == FOLLOWERS * plan.samples
    return in_ms(notes)


EXPERIMENTS = (*map(trips, STORES), *map(followers, STORES))
