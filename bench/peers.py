"""Against another library, side by side, if it happens to be installed: `pip install huey`, then `--peers`.

huey is the fastest peer with an embedded store. It is measured at its best: its own dequeue and execute in a loop in
this process, without a consumer around it and without results. On SQLite it is as durable by default as laneway is.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from bench.plan import Plan, remove
from bench.rows import Experiment, Round, Row, Turn, duel, experiment
from bench.subjects import STORES, payload
from bench.throughput import draining, submitting

CALLERS = 20
INSTALLED = find_spec("huey") is not None


def peer_drain(store: str, must: float, aim: float) -> Experiment:
    @experiment(
        Row(name=f"peer.drain.{store}", title=f"drain, {STORES[store]}: laneway / huey", unit="/s", must=must, aim=aim)
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        return [await duel(plan, partial(huey_draining, plan, store), partial(draining, plan, store))]

    return measure


@experiment(
    Row(name="peer.submit.sqlite", title="submit, 20 callers, SQLite: laneway / huey", unit="/s", must=3, aim=10)
)
async def peer_submit(plan: Plan) -> list[list[Round]]:
    return [await duel(plan, partial(huey_submitting, plan), partial(submitting, plan, "sqlite", CALLERS))]


@asynccontextmanager
async def huey_draining(plan: Plan, store: str) -> AsyncIterator[Turn]:
    number = plan.runs // 5

    async def turn() -> float:
        for index in range(number):
            task(**payload(index))
        start = perf_counter()
        for _ in range(number):
            peer.execute(peer.dequeue())
        return number / (perf_counter() - start)

    with huey(plan, store) as (peer, task):
        yield turn


@asynccontextmanager
async def huey_submitting(plan: Plan) -> AsyncIterator[Turn]:
    number = plan.runs // 5

    async def turn() -> float:
        start = perf_counter()
        for index in range(number):
            task(**payload(index))
        return number / (perf_counter() - start)

    with huey(plan, "sqlite") as (_, task):
        yield turn


@contextmanager
def huey(plan: Plan, store: str) -> Iterator[tuple[Any, Any]]:
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


EXPERIMENTS = (peer_drain("memory", 1, 2), peer_drain("sqlite", 5, 15), peer_submit)
