"""How soon an idle worker starts a run: one that was just submitted, and one that has just become due."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from bench.baselines import commit_times
from bench.inserts import row_times
from bench.plan import ROOT, Plan
from bench.pushes import ping_times
from bench.rows import Experiment, Round, Row, experiment, percentile
from bench.subjects import STORES, Subject, subject

PAUSE = 0.01  # seconds between two submissions: the worker is idle again
SPACING = 0.02  # seconds between two due times


@experiment(
    Row(
        name="pickup.sqlite.p50",
        title="idle pick-up, same process, p50: SQLite / one-row commit",
        unit="ms",
        better="less",
    ),
    Row(name="pickup.sqlite.p99", title="idle pick-up, same process, p99: SQLite", unit="ms", better="less"),
    Row(
        name="pickup.other.p50",
        title="idle pick-up, from another process, p50: SQLite / one-row commit",
        unit="ms",
        better="less",
    ),
    Row(name="pickup.other.p99", title="idle pick-up, from another process, p99: SQLite", unit="ms", better="less"),
    Row(
        name="pickup.commit",
        title="for comparison: one-row commit after 10 ms of rest / back to back",
        unit="ms",
        better="less",
    ),
    Row(name="pickup.memory.p50", title="idle pick-up, same process, p50: memory", unit="ms", better="less"),
    Row(name="pickup.memory.p99", title="idle pick-up, same process, p99: memory", unit="ms", better="less"),
)
async def pick_up(plan: Plan) -> list[list[Round]]:
    sides = (
        partial(commit_times, plan),
        partial(commit_times, plan, PAUSE),
        partial(pick_ups, plan, "sqlite"),
        partial(pick_ups_from_another, plan, "sqlite"),
        partial(pick_ups, plan, "memory"),
    )
    commits, rested, same, other, memory = zip(*[await one_round(plan, sides) for _ in range(plan.rounds)], strict=True)
    bases = [percentile(times, 0.5) for times in commits]
    after_rest, _ = percentiles(rested, bases)
    return [*percentiles(same, bases), *percentiles(other, bases), after_rest, *percentiles(memory)]


@experiment(
    Row(
        name="pickup.redis.p50",
        title="idle pick-up, same process, p50: Redis / PING",
        unit="ms",
        better="less",
    ),
    Row(name="pickup.redis.p99", title="idle pick-up, same process, p99: Redis", unit="ms", better="less"),
    Row(
        name="pickup.redis.other.p50",
        title="idle pick-up, from another process, p50: Redis / PING",
        unit="ms",
        better="less",
    ),
    Row(
        name="pickup.redis.other.p99", title="idle pick-up, from another process, p99: Redis", unit="ms", better="less"
    ),
    Row(name="pickup.ping", title="for comparison: PING after 10 ms of rest / back to back", unit="ms", better="less"),
)
async def pick_up_redis(plan: Plan) -> list[list[Round]]:
    sides = (
        partial(ping_times, plan),
        partial(ping_times, plan, PAUSE),
        partial(pick_ups, plan, "redis"),
        partial(pick_ups_from_another, plan, "redis"),
    )
    pings, rested, same, other = zip(*[await one_round(plan, sides) for _ in range(plan.rounds)], strict=True)
    bases = [percentile(times, 0.5) for times in pings]
    after_rest, _ = percentiles(rested, bases)
    return [*percentiles(same, bases), *percentiles(other, bases), after_rest]


@experiment(
    Row(
        name="pickup.postgres.p50",
        title="idle pick-up, same process, p50: PostgreSQL / one-row commit",
        unit="ms",
        better="less",
    ),
    Row(name="pickup.postgres.p99", title="idle pick-up, same process, p99: PostgreSQL", unit="ms", better="less"),
    Row(
        name="pickup.postgres.other.p50",
        title="idle pick-up, from another process, p50: PostgreSQL / one-row commit",
        unit="ms",
        better="less",
    ),
    Row(
        name="pickup.postgres.other.p99",
        title="idle pick-up, from another process, p99: PostgreSQL",
        unit="ms",
        better="less",
    ),
    Row(
        name="pickup.row",
        title="for comparison: one-row commit of PostgreSQL after 10 ms of rest / back to back",
        unit="ms",
        better="less",
    ),
)
async def pick_up_postgres(plan: Plan) -> list[list[Round]]:
    sides = (
        partial(row_times, plan),
        partial(row_times, plan, PAUSE),
        partial(pick_ups, plan, "postgres"),
        partial(pick_ups_from_another, plan, "postgres"),
    )
    commits, rested, same, other = zip(*[await one_round(plan, sides) for _ in range(plan.rounds)], strict=True)
    bases = [percentile(times, 0.5) for times in commits]
    after_rest, _ = percentiles(rested, bases)
    return [*percentiles(same, bases), *percentiles(other, bases), after_rest]


async def one_round(plan: Plan, sides: Sequence[Callable[[], Awaitable[list[float]]]]) -> list[list[float]]:
    """Let the sides take turns; return the times that each has taken."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(plan.turns):
        for taken, side in zip(times, sides, strict=True):
            taken.extend(await side())
    return times


def late(store: str) -> Experiment:
    """Lateness of runs with a delay, by the due time that the store has recorded."""
    title = f"lateness of a due run: {STORES[store]}"

    @experiment(
        Row(name=f"late.{store}.p50", title=f"{title}, p50", unit="ms", better="less", must=3, aim=1.5),
        Row(name=f"late.{store}.p99", title=f"{title}, p99", unit="ms", better="less", must=20, aim=5),
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        return percentiles([await latenesses(plan, store) for _ in range(plan.rounds)])

    return measure


def percentiles(times: Sequence[Sequence[float]], bases: Sequence[float] | None = None) -> list[list[Round]]:
    """Return the rounds of a row of medians, against the bases if there are any, and those of a row of p99."""
    halves = [percentile(each, 0.5) for each in times]
    return [
        [Round(half, bases[index] if bases else None) for index, half in enumerate(halves)],
        [Round(percentile(each, 0.99)) for each in times],
    ]


class Notes:
    """Times that handlers note; `complete` returns them once there are so many."""

    def __init__(self, number: int) -> None:
        self._number, self._notes, self._complete = number, list[tuple[float, float]](), asyncio.Event()

    def add(self, expected: float, seen: float) -> None:
        self._notes.append((expected, seen))
        if len(self._notes) == self._number:
            self._complete.set()

    async def complete(self) -> list[tuple[float, float]]:
        await asyncio.wait_for(self._complete.wait(), 30)
        return self._notes


def stamping(laneway: Subject, number: int) -> Notes:
    """Register a handler that notes when it was sent and when it was started."""
    notes = Notes(number)

    async def stamp(sent: float) -> None:
        notes.add(sent, time.monotonic())

    laneway.app.task(stamp)
    return notes


async def pick_ups(plan: Plan, store: str) -> list[float]:
    """Return the time from before `submit` to the handler's first line, in ms, one run at a time."""
    async with subject(plan, store) as laneway:
        # The first run is for warming up, as the producer's is.
        notes = stamping(laneway, plan.samples + 1)
        async with laneway.app.running():
            for _ in range(plan.samples + 1):
                await laneway.app.submit("stamp", {"sent": time.monotonic()})
                await asyncio.sleep(PAUSE)
            return in_ms((await notes.complete())[1:])


async def pick_ups_from_another(plan: Plan, store: str) -> list[float]:
    """Return the same with another process as the one that submits; both read one monotonic clock."""
    async with subject(plan, store) as laneway:
        # The producer's first run is for warming up.
        notes = stamping(laneway, plan.samples + 1)
        async with laneway.app.running():
            producer = [sys.executable, "-m", "bench.producer", laneway.app.url, str(plan.samples), str(PAUSE)]
            process = await asyncio.create_subprocess_exec(*producer, cwd=ROOT)
            assert await process.wait() == 0, "the producer failed"
            return in_ms((await notes.complete())[1:])


async def latenesses(plan: Plan, store: str) -> list[float]:
    """Return how long after its due time each handler's first line came, in ms."""
    samples = plan.turns * plan.samples
    notes = Notes(samples)

    async def due(number: int) -> None:
        notes.add(number, time.time())

    async with subject(plan, store) as laneway:
        laneway.app.task(due)
        async with laneway.app.running():
            delays = [0.5 + SPACING * (number + random.random()) for number in range(samples)]
            receipts = [
                await laneway.app.submit("due", {"number": number}, delay=delay) for number, delay in enumerate(delays)
            ]
            started = sorted(await notes.complete())
        runs = [await laneway.app.get(receipt) for receipt in receipts]
    return in_ms([(run.due_at.timestamp(), at) for run, (_, at) in zip(runs, started, strict=True)])


def in_ms(notes: Sequence[tuple[float, float]]) -> list[float]:
    return [(seen - expected) * 1000 for expected, seen in notes]


EXPERIMENTS = (pick_up, pick_up_redis, pick_up_postgres, *map(late, STORES))
