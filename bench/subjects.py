"""Laneway as it is measured: fresh schedulers, a handler that does nothing, a store that counts its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast

from bench.plan import Plan, remove
from bench.servers import fresh_database
from laneway import Lane, Scheduler, Submission
from laneway.engine.common.clock import SystemClock
from laneway.engine.worker.worker import Worker
from laneway.ports.store import Store
from laneway.testing.servers import valkey_server

# By the name in a row, how a title spells it.
STORES = {"memory": "memory", "sqlite": "SQLite", "redis": "Redis", "postgres": "PostgreSQL"}
IN_FLIGHT = 100
WIDE = Lane("main", limit=1_000_000)  # a limit that never binds
TEXT = "x" * 100


async def noop(number: int, text: str) -> int:
    return number


def payload(number: int) -> dict[str, Any]:
    """Return small arguments; with id, task and lane they are about the 200 bytes of a baseline's row."""
    return {"number": number, "text": TEXT}


class Counted:
    """Hands every call on to a store and counts it by name."""

    def __init__(self, store: Store) -> None:
        self.calls: Counter[str] = Counter()
        self._inner = store

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)

        def counted(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return verb(*args, **named)

        setattr(self, name, counted)
        return counted


@dataclass(frozen=True)
class Subject:
    """A scheduler on a fresh store, and the store itself."""

    app: Scheduler
    store: Store
    counted: Counted

    def worker(self) -> Worker:
        """Return a worker whose calls are counted."""
        return Worker(cast("Store", self.counted), self.app.tasks.registry, SystemClock(), self.app.settings)


@contextmanager
def fresh_url(plan: Plan, store: str) -> Iterator[str]:
    """Give the address of an empty store on a private server; remove its files at the end."""
    if store == "memory":
        yield "memory://"
    elif store == "redis":
        with valkey_server() as server:
            yield server.url
    elif store == "postgres":
        with fresh_database() as url:
            yield url
    else:
        file = plan.file()
        yield f"sqlite:///{file.resolve()}"
        remove(file)


@asynccontextmanager
async def subject(plan: Plan, store: str, lane: Lane = WIDE) -> AsyncIterator[Subject]:
    """Open a scheduler on a fresh store with the `noop` task; close it and remove its files at the end."""
    with fresh_url(plan, store) as url:
        async with Scheduler(url, lanes=[lane], concurrency=IN_FLIGHT) as app:
            app.task(noop)
            opened = await app.open()
            yield Subject(app, opened, Counted(opened))


def submissions(number: int, task: str = "noop") -> list[Submission]:
    return [Submission(task, payload(index)) for index in range(number)]


async def fill(subject: Subject, items: Iterable[Submission]) -> None:
    """Submit these before a clock starts."""
    await subject.app.submit_many(items)


async def drain_rate(subject: Subject, number: int) -> float:
    """Return runs a second that one worker executes; it ends when all of `number` have ended."""
    worker = subject.worker()
    start = perf_counter()
    await worker.run(until_drained=True)
    taken = perf_counter() - start
    ended = (await subject.store.depths()).runs.get("succeeded", 0)
    assert ended >= number, f"only {ended} of {number} runs have succeeded"
    return number / taken
