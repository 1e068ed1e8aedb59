"""Submitting and draining, in runs a second; and how many calls to the store a drain takes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle, islice
from time import perf_counter

from bench import baselines
from bench.baselines import bare_tasks, inserting
from bench.inserts import grouping, unnesting
from bench.plan import Plan
from bench.pushes import awaiting, pipelining, redis_py
from bench.rows import Experiment, Round, Row, Turn, duel, experiment, race
from bench.subjects import IN_FLIGHT, STORES, WIDE, drain_rate, fill, payload, subject, submissions
from laneway import Lane, SessionPolicy, Submission

CALLERS = 100
BULK = 1000
AT_ONCE = 500  # LPUSHes in one piece
USERS = 50
POLICY = SessionPolicy(cap=1_000_000)  # the row measures speed, not refusals
SESSIONS = 4  # of each user
CAPPED = Lane("main", limit=IN_FLIGHT, per_user=IN_FLIGHT // USERS)


@experiment(
    Row(
        name="submit.sqlite",
        title="submit, 100 awaiting callers, and one read: SQLite / a bare table by 100 awaiting callers (S1)",
        unit="/s",
        must=0.5,
        aim=0.75,
    )
)
async def submit(plan: Plan) -> list[list[Round]]:
    return [await duel(plan, partial(baselines.grouping, plan, CALLERS), partial(submitting, plan, "sqlite", CALLERS))]


@experiment(
    Row(
        name="submit.redis",
        title="submit, 100 awaiting callers, and one read: Redis / LPUSH by 100 awaiting callers (R1)",
        unit="/s",
        must=0.3,
        aim=0.5,
    )
)
async def submit_redis(plan: Plan) -> list[list[Round]]:
    return [await duel(plan, partial(awaiting, plan, CALLERS), partial(submitting, plan, "redis", CALLERS))]


@experiment(
    Row(
        name="submit.postgres",
        title="submit, 100 awaiting callers, and one read: PostgreSQL / grouped unnest by 100 awaiting callers (P1)",
        unit="/s",
        must=0.4,
        aim=0.7,
    )
)
async def submit_postgres(plan: Plan) -> list[list[Round]]:
    return [await duel(plan, partial(grouping, plan, CALLERS), partial(submitting, plan, "postgres", CALLERS))]


@experiment(
    Row(
        name="bulk.sqlite",
        title="bulk, submit_many of 1000: SQLite / executemany of 1000 (S2)",
        unit="/s",
        must=0.35,
        aim=0.65,
    )
)
async def bulk(plan: Plan) -> list[list[Round]]:
    return [await duel(plan, partial(inserting, plan, BULK), partial(submitting_many, plan, "sqlite"))]


@experiment(
    Row(
        name="bulk.redis",
        title="bulk, submit_many of 1000: Redis / LPUSH pipelined by 500 (R2)",
        unit="/s",
        must=0.3,
        aim=0.9,
    ),
    Row(name="bulk.redis-py", title="for comparison: LPUSH pipelined by 500 by redis-py / R2", unit="/s"),
)
async def bulk_redis(plan: Plan) -> list[list[Round]]:
    sides = (
        partial(pipelining, plan, AT_ONCE),
        partial(submitting_many, plan, "redis"),
        partial(redis_py, plan, AT_ONCE),
    )
    return beside(await race(plan, *sides))


@experiment(
    Row(
        name="bulk.postgres",
        title="bulk, submit_many of 1000: PostgreSQL / unnest of 1000 (P2)",
        unit="/s",
        must=0.5,
        aim=1,
    )
)
async def bulk_postgres(plan: Plan) -> list[list[Round]]:
    return [await duel(plan, partial(unnesting, plan, BULK), partial(submitting_many, plan, "postgres"))]


@experiment(
    Row(name="drain.memory", title="drain, one worker: memory / bare create_task", unit="/s", must=0.35, aim=0.65),
    Row(name="drain.sqlite", title="drain, one worker: SQLite / memory (E)", unit="/s", must=0.18, aim=0.40),
    Row(name="drain.redis", title="drain, one worker: Redis / memory (E)", unit="/s", must=0.20, aim=0.50),
    Row(name="drain.postgres", title="drain, one worker: PostgreSQL / memory (E)", unit="/s", must=0.12, aim=0.30),
)
async def drain(plan: Plan) -> list[list[Round]]:
    items = {"memory": submissions(2 * plan.runs)}  # it is so much faster; see `limits`
    sides = [partial(draining, plan, store, items=items.get(store)) for store in STORES]
    rounds = await race(plan, partial(bare_tasks, plan), *sides)
    return [
        [Round(memory, bare) for bare, memory, *_ in rounds],
        *([Round(others[nth], memory) for _, memory, *others in rounds] for nth in range(len(STORES) - 1)),
    ]


def beside(rounds: Sequence[Sequence[float]]) -> list[list[Round]]:
    """Return rounds of a baseline and other sides, as rounds of each of them against the baseline."""
    bare, *others = zip(*rounds, strict=True)
    return [[Round(*pair) for pair in zip(side, bare, strict=True)] for side in others]


def limits(store: str) -> Experiment:
    """All limits and sessions on, against the same number of plain runs on the same store."""

    @experiment(
        Row(
            name=f"limits.{store}",
            title=f"all limits and sessions on / plain drain: {STORES[store]}",
            unit="/s",
            must=0.4,
            aim=0.7,
        )
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        # Turns that last about as long: the shorter ones of a side that is faster would more often be undisturbed.
        plain = partial(draining, plan, store, items=submissions(2 * plan.runs))
        return [await duel(plan, plain, partial(draining, plan, store, CAPPED, limited(plan.runs)))]

    return measure


def trips(store: str) -> Experiment:
    """Calls of `step` per run: for handlers that end at once, and for handlers that end one by one."""
    title = "round trips per run, 100 in flight"

    @experiment(
        Row(name=f"trips.{store}", title=f"{title}: {STORES[store]}", unit="/run", better="less"),
        Row(name=f"trips.{store}.slow", title=f"{title} for 5 to 15 ms: {STORES[store]}", unit="/run", better="less"),
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        return [
            [Round(await steps_per_run(plan, store, task)) for _ in range(plan.rounds)] for task in ("noop", "slow")
        ]

    return measure


@asynccontextmanager
async def submitting(plan: Plan, store: str, callers: int) -> AsyncIterator[Turn]:
    """Runs a second that so many callers submit, each awaiting every receipt; the first read after them is included.

    So a store that defers work pays for it here.
    """
    each = plan.runs // callers

    async def caller() -> None:
        for number in range(each):
            await laneway.app.submit("noop", payload(number))

    async def turn() -> float:
        start = perf_counter()
        await asyncio.gather(*[caller() for _ in range(callers)])
        await laneway.store.depths()
        return each * callers / (perf_counter() - start)

    async with subject(plan, store) as laneway:
        yield turn


@asynccontextmanager
async def submitting_many(plan: Plan, store: str) -> AsyncIterator[Turn]:
    """Runs a second that one caller submits by `submit_many`."""

    async def turn() -> float:
        start = perf_counter()
        for _ in range(plan.runs // BULK):
            await laneway.app.submit_many([("noop", payload(number)) for number in range(BULK)])
        return plan.runs / (perf_counter() - start)

    async with subject(plan, store) as laneway:
        yield turn


@asynccontextmanager
async def draining(
    plan: Plan, store: str, lane: Lane = WIDE, items: list[Submission] | None = None
) -> AsyncIterator[Turn]:
    """Runs a second that one worker executes; they are submitted before the clock starts."""
    items = items or submissions(plan.runs)

    async def turn() -> float:
        await fill(laneway, items)
        return await drain_rate(laneway, len(items))

    async with subject(plan, store, lane) as laneway:
        yield turn


def limited(number: int) -> list[Submission]:
    """Return runs of users who are at their caps all the time, each with busy sessions and three priorities.

    Each user and each session has as many as any other, so that 100 are in flight until the end, as in a plain drain:
    that few run at once where only one user is left is what a cap is for, not what it costs.
    """
    shares = [
        (f"user-{user}", f"user-{user}/{session}", priority)
        for priority in (0, 5, 10)
        for session in range(SESSIONS)
        for user in range(USERS)
    ]
    places = list(islice(cycle(shares), number))
    random.Random(7).shuffle(places)  # the same every time: a round must not be luckier than another
    return [
        Submission("noop", payload(index), user=user, session=session, priority=priority, session_policy=POLICY)
        for index, (user, session, priority) in enumerate(places)
    ]


async def steps_per_run(plan: Plan, store: str, task: str) -> float:
    async def slow(number: int, text: str) -> None:
        await asyncio.sleep(0.005 + number % 100 / 10_000)

    async with subject(plan, store) as laneway:
        laneway.app.task(slow)
        await fill(laneway, submissions(plan.runs, task))
        await drain_rate(laneway, plan.runs)
        # Without the first step: it has nothing to settle yet.
        return (laneway.counted.calls["step"] - 1) / plan.runs


EXPERIMENTS = (
    *(submit, submit_redis, submit_postgres, bulk, bulk_redis, bulk_postgres, drain),
    *(*map(limits, STORES), *map(trips, STORES)),
)
