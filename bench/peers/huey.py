"""huey, the fastest peer with an embedded store.

It is measured at its best: its own dequeue and execute in a loop, without a consumer around it and without results. On
SQLite it is as durable by default as laneway is.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from bench.plan import Plan, remove
from bench.rows import Turn
from bench.subjects import payload


@asynccontextmanager
async def draining(plan: Plan, store: str) -> AsyncIterator[Turn]:
    """Tasks a second that its own loop executes; they are submitted before the clock starts."""
    number = plan.runs // 5

    async def turn() -> float:
        for index in range(number):
            task(**payload(index))
        start = perf_counter()
        for _ in range(number):
            peer.execute(peer.dequeue())
        taken = perf_counter() - start
        assert peer.pending_count() == 0, "huey has left tasks undone"
        return number / taken

    with opened(plan, store) as (peer, task):
        yield turn


@asynccontextmanager
async def submitting(plan: Plan) -> AsyncIterator[Turn]:
    """Tasks a second that are submitted: one after the other, as it has no way to await one."""
    number = plan.runs // 5

    async def turn() -> float:
        before = peer.pending_count()
        start = perf_counter()
        for index in range(number):
            task(**payload(index))
        taken = perf_counter() - start
        assert peer.pending_count() == before + number, "huey has not kept all tasks"
        return number / taken

    with opened(plan, "sqlite") as (peer, task):
        yield turn


@contextmanager
def opened(plan: Plan, store: str) -> Iterator[tuple[Any, Any]]:
    module = importlib.import_module("huey")
    file = plan.file()
    kinds = {"memory": module.MemoryHuey, "sqlite": partial(module.SqliteHuey, filename=str(file))}
    peer = kinds[store](results=False)

    @peer.task()  # type: ignore[untyped-decorator]  # huey is not typed
    def noop(number: int, text: str) -> int:
        return number

    yield peer, noop
    peer.storage.close()
    remove(file)
