"""PostgreSQL without laneway, by psycopg, on a private server that waits for its disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import Any

import psycopg

from bench.baselines import BODY, awaited
from bench.plan import Plan
from bench.rows import Turn
from bench.servers import fresh_database

INSERT = "INSERT INTO bare (body) SELECT unnest(%s::text[])"


@asynccontextmanager
async def grouping(plan: Plan, callers: int) -> AsyncIterator[Turn]:
    """Rows a second of so many callers, each awaiting every row; one `unnest` and COMMIT inserts those that wait."""

    async def insert(count: int) -> None:
        await link.execute(INSERT, ([BODY] * count,), prepare=True)

    async with bare_table() as link:
        yield partial(awaited, 2 * plan.runs // callers, callers, insert)


@asynccontextmanager
async def unnesting(plan: Plan, at_once: int) -> AsyncIterator[Turn]:
    """Rows a second: so many rows of 200 bytes by one `unnest`, committed, and again."""
    number = 5 * plan.runs
    rows = [BODY] * at_once

    async def turn() -> float:
        start = perf_counter()
        for _ in range(number // at_once):
            await link.execute(INSERT, (rows,), prepare=True)
        return number / (perf_counter() - start)

    async with bare_table() as link:
        yield turn


async def row_times(plan: Plan, rest: float = 0) -> list[float]:
    """Return how long each commit of one row takes, in ms: back to back, or after a rest of so many seconds."""
    times = []
    async with bare_table() as link:
        for _ in range(plan.samples):
            start = perf_counter()
            await link.execute(INSERT, ([BODY],), prepare=True)
            times.append((perf_counter() - start) * 1000)
            if rest:
                await asyncio.sleep(rest)
    return times


@asynccontextmanager
async def bare_table() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    with fresh_database() as url:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as link:
            await link.execute("CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text)")
            yield link
