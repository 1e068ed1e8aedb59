"""Jobs: the cost of a fire beyond its run, the start with many jobs, and the lateness of a fire.

A *fire* here is all that the ticker does for a job that is due: it is asked for, decided about, written. The same runs
submitted to a store without jobs say what of that is the run's.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import cast

from bench.latency import SPACING, Notes, in_ms, percentiles
from bench.plan import Plan
from bench.rows import Experiment, Round, Row, experiment
from bench.subjects import STORES, WIDE, Counted, fresh_url, subject
from laneway import At, Context, Every, Scheduler
from laneway.core.common.instants import SECOND, instant
from laneway.core.jobs.anchor import schedule_text
from laneway.core.jobs.fire_decision import run_of
from laneway.core.jobs.plan import created
from laneway.core.jobs.record import JobRecord, JobSpec
from laneway.core.schedules import Schedule
from laneway.core.schedules.form import to_dict
from laneway.engine.common.ids import new_run_id
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.firer import Firer
from laneway.ports.jobs import AddJob
from laneway.ports.store import Store
from laneway.testing import FakeClock

HOUR = 3600 * SECOND
BATCH = 1000  # jobs that are added, or runs that are submitted, at a time
TOGETHER = 1000  # jobs that are due in the same second


def new_job(number: int, rule: Schedule, now: int, condition: str | None = None) -> JobRecord:
    schedule = schedule_text(to_dict(rule))
    spec = JobSpec(name=f"job-{number}", task="noop", lane="main", schedule=schedule, enabled_when=condition)
    return created(new_run_id(), spec, now, "UTC")


async def keep(store: Store, jobs: Iterable[JobRecord]) -> None:
    """Add these jobs; calls at the same time share commits."""
    jobs = list(jobs)
    for first in range(0, len(jobs), BATCH):
        await asyncio.gather(*(store.change_job(AddJob(job)) for job in jobs[first : first + BATCH]))


# The cost of a fire


def fire(store: str) -> Experiment:
    """The cost of a fire, whole, and without what its run would cost without a job."""

    @experiment(
        Row(
            name=f"jobs.fire.{store}",
            title=f"a fire beyond its run: {STORES[store]}",
            unit="us",
            better="less",
        ),
        Row(name=f"jobs.whole.{store}", title=f"a fire, its run included: {STORES[store]}", unit="us", better="less"),
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        beyond, whole = list[Round](), list[Round]()
        for _ in range(plan.rounds):
            pairs = [await costs(plan, store) for _ in range(plan.turns)]
            fires, submits = (min(times) for times in zip(*pairs, strict=True))
            beyond.append(Round(max(0.0, fires - submits)))
            whole.append(Round(fires))
        return [beyond, whole]

    return measure


async def costs(plan: Plan, store: str) -> tuple[float, float]:
    """Return the cost of a fire, and that of only submitting its run, in microseconds."""
    async with due_jobs(plan, store, plan.runs) as (clock, opened, jobs):
        gc.collect()
        start = perf_counter()
        won = await Firer(opened, clock, JobEnvironment()).fire_all()
        fires = perf_counter() - start
        assert won == len(jobs), f"{won} of {len(jobs)} were fired"
    async with fresh(plan, store) as (_, opened):
        runs = [run_of(job, job.state.next_at or 0, live=True) for job in jobs]
        gc.collect()
        start = perf_counter()
        for first in range(0, len(runs), BATCH):
            await opened.submit(runs[first : first + BATCH])
        submits = perf_counter() - start
    return fires / plan.runs * 1_000_000, submits / plan.runs * 1_000_000


@asynccontextmanager
async def fresh(plan: Plan, store: str) -> AsyncIterator[tuple[FakeClock, Store]]:
    clock = FakeClock()
    with fresh_url(plan, store) as url:
        async with Scheduler(url, lanes=[WIDE], clock=clock) as app:
            yield clock, await app.open()


@asynccontextmanager
async def due_jobs(plan: Plan, store: str, number: int) -> AsyncIterator[tuple[FakeClock, Store, Sequence[JobRecord]]]:
    """Keep so many hourly jobs in a fresh store, and let the hour pass."""
    async with fresh(plan, store) as (clock, opened):
        now = clock.now()
        # Each has its own anchor, as jobs have that were made one after the other: no two schedules are the same.
        jobs = [new_job(index, Every(3600, anchor=instant(now + index)), now) for index in range(number)]
        await keep(opened, jobs)
        await clock.advance(3601)
        yield clock, opened, jobs


def together(store: str) -> Experiment:
    """How long it takes until all of a thousand jobs that are due together have their runs, and in how many writes."""
    title = f"1,000 jobs due in the same second: {STORES[store]}"

    @experiment(
        Row(name=f"jobs.together.{store}", title=f"{title}, until all are accepted", unit="ms", better="less"),
        Row(name=f"jobs.writes.{store}", title=f"{title}, writes", unit="calls", better="less"),
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        found = [await all_at_once(plan, store) for _ in range(plan.rounds)]
        return [[Round(figure) for figure in figures] for figures in zip(*found, strict=True)]

    return measure


async def all_at_once(plan: Plan, store: str) -> tuple[float, float]:
    async with due_jobs(plan, store, TOGETHER) as (clock, opened, _):
        counted = Counted(opened)
        start = perf_counter()
        assert await Firer(cast("Store", counted), clock, JobEnvironment()).fire_all() == TOGETHER
        return (perf_counter() - start) * 1000, counted.calls["fire"]


# Many jobs


def moved(store: str) -> Experiment:
    """The cost of a fire without its run, among very many jobs: find it due, decide, record, plan the next."""
    must, aim = (30, 5) if store == "memory" else (None, None)

    @experiment(
        Row(
            name=f"jobs.move.{store}",
            title=f"{{crowd:,}} jobs: per fire, without its run: {STORES[store]}",
            unit="us",
            better="less",
            must=must,
            aim=aim,
        )
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        knowing = JobEnvironment()
        knowing.conditions["never"] = never
        async with fresh(plan, store) as (clock, opened):
            now = clock.now()
            # One after the other over a day: as many are due at each turn as runs are drained in one elsewhere.
            apart = 24 * HOUR // plan.crowd
            rules = (Every(86_400, anchor=instant(now + HOUR + index * apart)) for index in range(plan.crowd))
            await keep(opened, (new_job(index, rule, now, "never") for index, rule in enumerate(rules)))
            await clock.advance(3600)
            rounds = []
            for _ in range(plan.rounds):
                costs = []
                for _ in range(plan.turns):
                    await clock.advance(plan.runs * apart / SECOND)
                    gc.collect()
                    start = perf_counter()
                    fired = await Firer(opened, clock, knowing).fire_all()
                    costs.append((perf_counter() - start) / fired * 1_000_000)
                rounds.append(Round(min(costs)))
        return [rounds]

    return measure


async def never() -> bool:
    return False


def start(store: str) -> Experiment:
    """From making a scheduler to the first line of a handler that a job starts, among very many jobs."""

    @experiment(
        Row(
            name=f"jobs.start.{store}",
            title=f"{{crowd:,}} jobs: from start to the first fire: {STORES[store]}",
            unit="s",
            better="less",
            must=3,
            aim=1,
        )
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        if store == "memory":
            return [[Round(await start_in_memory(plan)) for _ in range(plan.rounds)]]
        with fresh_url(plan, store) as url:
            async with Scheduler(url, lanes=[WIDE]) as app:
                await crowd(plan, await app.open())
            return [[Round(await first_fire(Scheduler(url, lanes=[WIDE]))) for _ in range(plan.rounds)]]

    return measure


async def crowd(plan: Plan, store: Store) -> None:
    """Keep jobs that are due at any time of the next day, and not soon."""
    now = time.time_ns() // 1000
    later = [instant(now + HOUR + index * HOUR * 23 // plan.crowd) for index in range(plan.crowd)]
    await keep(store, (new_job(index, Every(86_400, anchor=at), now) for index, at in enumerate(later)))


async def start_in_memory(plan: Plan) -> float:
    app = Scheduler("memory://", lanes=[WIDE])
    await crowd(plan, await app.open())
    return await first_fire(app)


async def first_fire(app: Scheduler) -> float:
    """Return how long it takes until a job is fired that was due when the scheduler was started, in seconds."""
    gc.collect()
    begun = perf_counter()
    first = asyncio.get_running_loop().create_future()

    async def noop() -> None:
        if not first.done():
            first.set_result(perf_counter() - begun)

    app.task(noop)
    async with app:
        job = await app.jobs.create(f"first-{new_run_id()}", Every(86_400), "noop", run_on_start=True)
        async with app.running():
            taken = await asyncio.wait_for(first, 60)
        await app.jobs.remove(job)
    return float(taken)


# Lateness


def late(store: str) -> Experiment:
    """Lateness of jobs' handlers, by the nominal time."""
    title = f"lateness of a fire's handler: {STORES[store]}"

    @experiment(
        Row(name=f"jobs.late.{store}.p50", title=f"{title}, p50", unit="ms", better="less"),
        Row(name=f"jobs.late.{store}.p99", title=f"{title}, p99", unit="ms", better="less"),
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        return percentiles([await latenesses(plan, store) for _ in range(plan.rounds)])

    return measure


async def latenesses(plan: Plan, store: str) -> list[float]:
    """Return how long after its nominal time each handler's first line came, in ms."""
    samples = plan.turns * plan.samples
    notes = Notes(samples)

    async def due(*, ctx: Context) -> None:
        now = time.time()
        assert ctx.job is not None
        notes.add(ctx.job.nominal_at.timestamp(), now)

    async with subject(plan, store) as laneway:
        laneway.app.task(due)
        first = datetime.now(UTC) + timedelta(seconds=0.5 + samples / 200)
        times = [first + timedelta(seconds=SPACING * (number + random.random())) for number in range(samples)]
        create = laneway.app.jobs.create
        await asyncio.gather(*(create(f"job-{number}", At(at), "due") for number, at in enumerate(times)))
        async with laneway.app.running():
            return in_ms(await notes.complete())


EXPERIMENTS = (*map(fire, STORES), *map(together, STORES), *map(start, STORES), *map(moved, STORES), *map(late, STORES))
