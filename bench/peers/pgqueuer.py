"""pgqueuer, the fastest peer on PostgreSQL. It keeps no results, and logs every job as picked and as successful.

It is set up as its guide to performance says: asyncpg, its settings for autovacuum, and its default durability, which
is laneway's: every table is logged, every commit waits for the disk. The worker picks and logs 1,000 jobs at a time. It
does so by a pool: it picks while it logs, and was faster than on the one connection that the guide has. Its handlers
take bytes; this one does not decode them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from bench.plan import Plan
from bench.rows import Turn
from bench.servers import fresh_database
from bench.subjects import payload

PICKED_AT_ONCE = 1_000
POOL = 20  # as many as there are callers
TASK = "noop"


@asynccontextmanager
async def draining(plan: Plan) -> AsyncIterator[Turn]:
    """Jobs a second that one worker executes; they are submitted before the clock starts."""
    manager = importlib.import_module("pgqueuer.qm").QueueManager
    drain = importlib.import_module("pgqueuer.types").QueueExecutionMode.drain
    number = 2 * plan.runs
    handled = 0

    async def noop(job: Any) -> None:
        nonlocal handled
        handled += 1

    async def turn() -> float:
        nonlocal handled
        handled, logged = 0, await successes(queries)
        await queries.enqueue([TASK] * number, [encoded(index) for index in range(number)], [0] * number)
        worker = manager(queries)  # it can be run once
        worker.entrypoint(TASK)(noop)
        start = perf_counter()
        await worker.run(batch_size=PICKED_AT_ONCE, mode=drain)
        taken = perf_counter() - start
        assert handled == number, "pgqueuer has left jobs undone"
        assert await successes(queries) == logged + number, "pgqueuer has not logged all jobs"
        assert await queries.queue_size() == [], "pgqueuer has kept jobs that are done"
        return number / taken

    async with opened() as queries:
        yield turn


@asynccontextmanager
async def submitting(plan: Plan, callers: int) -> AsyncIterator[Turn]:
    """Jobs a second that so many callers submit, each awaiting every one."""
    each = plan.runs // 5 // callers

    async def caller() -> None:
        for index in range(each):
            await queries.enqueue(TASK, encoded(index))

    async def turn() -> float:
        before = await waiting(queries)
        start = perf_counter()
        await asyncio.gather(*[caller() for _ in range(callers)])
        taken = perf_counter() - start
        assert await waiting(queries) == before + each * callers, "pgqueuer has not kept all jobs"
        return each * callers / taken

    async with opened() as queries:
        yield turn


@asynccontextmanager
async def opened() -> AsyncIterator[Any]:
    """Install it into a fresh database and give its queries."""
    asyncpg = importlib.import_module("asyncpg")
    with fresh_database() as url:
        async with asyncpg.create_pool(url, min_size=POOL, max_size=POOL) as pool:
            queries = importlib.import_module("pgqueuer.queries").Queries.from_asyncpg_pool(pool)
            await queries.install()
            await queries.optimize_autovacuum()
            yield queries


def encoded(index: int) -> bytes:
    return json.dumps(payload(index)).encode()


async def waiting(queries: Any) -> int:
    return sum(group.count for group in await queries.queue_size())


async def successes(queries: Any) -> int:
    rows = await queries.driver.fetch("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")
    return int(rows[0]["count"])
