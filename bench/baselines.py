"""The machine without laneway: the baselines of the ratios."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

from bench.plan import Plan, remove
from bench.rows import Turn
from bench.subjects import noop, payload

BODY = "x" * 200


@asynccontextmanager
async def inserting(plan: Plan, per_commit: int) -> AsyncIterator[Turn]:
    """Rows a second: `executemany` of so many rows of 200 bytes per commit, WAL, synchronous=FULL."""
    number = 5 * plan.runs
    rows = [(BODY,)] * per_commit

    async def turn() -> float:
        start = perf_counter()
        for _ in range(number // per_commit):
            insert(connection, rows)
        return number / (perf_counter() - start)

    with bare_table(plan.file()) as connection:
        yield turn


@asynccontextmanager
async def grouping(plan: Plan, callers: int) -> AsyncIterator[Turn]:
    """Rows a second: the same by so many callers, each awaiting every row, while a thread waits for the disk."""
    loop = asyncio.get_running_loop()

    async def insert_all(count: int) -> None:
        await loop.run_in_executor(thread, insert, connection, [(BODY,)] * count)

    with bare_table(plan.file()) as connection, ThreadPoolExecutor(1) as thread:
        yield partial(awaited, 2 * plan.runs // callers, callers, insert_all)


async def awaited(each: int, callers: int, insert: Callable[[int], Awaitable[None]]) -> float:
    """Return the rows a second of callers who each await every row; waiting rows are inserted together."""
    waiting: list[asyncio.Future[None]] = []
    wanted = asyncio.Event()

    async def serve() -> None:
        while True:
            await wanted.wait()
            wanted.clear()
            group = waiting[:]
            waiting.clear()
            await insert(len(group))
            for row in group:
                row.set_result(None)

    async def caller() -> None:
        for _ in range(each):
            row = asyncio.get_running_loop().create_future()
            waiting.append(row)
            wanted.set()
            await row

    serving = asyncio.create_task(serve())
    start = perf_counter()
    await asyncio.gather(*[caller() for _ in range(callers)])
    taken = perf_counter() - start
    serving.cancel()
    await asyncio.wait([serving])
    return each * callers / taken


@asynccontextmanager
async def bare_tasks(plan: Plan) -> AsyncIterator[Turn]:
    """Handlers a second that bare asyncio executes: create 100 tasks, await them, and again."""
    number = 5 * plan.runs
    args = payload(0)
    loop = asyncio.get_running_loop()

    async def turn() -> float:
        start = perf_counter()
        for _ in range(number // 100):
            tasks = [loop.create_task(noop(**args)) for _ in range(100)]
            for task in tasks:
                await task
        return number / (perf_counter() - start)

    yield turn


async def commit_times(plan: Plan, rest: float = 0) -> list[float]:
    """Return how long each commit of one row takes, in ms: back to back, or after a rest of so many seconds."""
    times = []
    with bare_table(plan.file()) as connection:
        for _ in range(plan.samples):
            start = perf_counter()
            insert(connection, [(BODY,)])
            times.append((perf_counter() - start) * 1000)
            if rest:
                await asyncio.sleep(rest)
    return times


@contextmanager
def bare_table(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("create table bare (id integer primary key, body text)")
        yield connection
    remove(file)


def insert(connection: sqlite3.Connection, rows: list[tuple[str]]) -> None:
    connection.execute("begin immediate")
    connection.executemany("insert into bare (body) values (?)", rows)
    connection.execute("commit")
