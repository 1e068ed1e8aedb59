"""How soon an idle worker of a peer starts a job of another process: one job at a time, as in `bench.latency`.

The worker is in this process, as laneway's is, and is set up so that it waits for a push where the peer has one:
huey's consumer blocks on its Redis list (a file it polls), repid's on its stream, pgqueuer's listens.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from bench.latency import PAUSE, Notes, in_ms
from bench.plan import ROOT, Plan
from bench.subjects import fresh_url

CHANNEL = "stamp"
Worker = Callable[[str, Callable[[float], None]], AbstractAsyncContextManager[None]]


async def pick_ups(plan: Plan, peer: str, store: str) -> list[float]:
    """Return the time from before the submission to the handler's first line, in ms."""
    notes = Notes(plan.samples + 1)
    with fresh_url(plan, store) as url:
        loop = asyncio.get_running_loop()

        def note(sent: float) -> None:
            loop.call_soon_threadsafe(notes.add, sent, time.monotonic())

        async with WORKERS[peer](url, note):
            producer = [sys.executable, "-m", "bench.peers.producer", peer, url, str(plan.samples), str(PAUSE)]
            process = await asyncio.create_subprocess_exec(*producer, cwd=ROOT)
            assert await process.wait() == 0, "the producer failed"
            return in_ms((await notes.complete())[1:])


@asynccontextmanager
async def huey_worker(url: str, note: Callable[[float], None]) -> AsyncIterator[None]:
    peer, _ = huey_app(url, note)
    consumer = peer.create_consumer(workers=1, worker_type="thread", periodic=False, check_worker_health=False)
    consumer.start()
    try:
        yield
    finally:
        await asyncio.to_thread(consumer.stop)


def huey_app(url: str, note: Callable[[float], None]) -> tuple[Any, Any]:
    huey = importlib.import_module("huey")
    if url.startswith("redis"):
        peer = huey.RedisHuey(CHANNEL, results=False, url=url)
    else:
        peer = huey.SqliteHuey(CHANNEL, results=False, filename=url.removeprefix("sqlite:///"))

    def stamp(sent: float) -> None:
        note(sent)

    stamp.__module__ = CHANNEL  # by which huey knows a task; it is `__main__` where it is submitted
    return peer, peer.task(name="stamp")(stamp)


@asynccontextmanager
async def repid_worker(url: str, note: Callable[[float], None]) -> AsyncIterator[None]:
    module, app = repid_app(url)
    router = module.Router()

    async def stamp(sent: float) -> None:
        note(sent)

    everything = module.catch_all_routing_strategy
    router.actor(channel=CHANNEL, routing_strategy=everything, converter=module.BasicConverter, keep_alive=False)(stamp)
    app.include_router(router)
    async with app.servers.default.connection():
        worker = asyncio.create_task(app.run_worker(tasks_limit=50, register_signals=[]))
        await asyncio.sleep(0.5)  # it does not report when it listens
        try:
            yield
        finally:
            worker.cancel()
            await asyncio.wait([worker])


def repid_app(url: str) -> tuple[Any, Any]:
    module = importlib.import_module("repid")
    app = module.Repid()
    app.servers.register_server("main", module.RedisServer(url), is_default=True)
    return module, app


@asynccontextmanager
async def pgqueuer_worker(url: str, note: Callable[[float], None]) -> AsyncIterator[None]:
    manager = importlib.import_module("pgqueuer.qm").QueueManager

    async def stamp(job: Any) -> None:
        note(float(job.payload))

    async with pgqueuer_queries(url) as queries:
        await queries.install()
        worker = manager(queries)
        worker.entrypoint(CHANNEL)(stamp)
        working = asyncio.create_task(worker.run(batch_size=10))
        await asyncio.sleep(0.5)
        try:
            yield
        finally:
            worker.shutdown.set()
            await asyncio.wait([working], timeout=5)
            working.cancel()


@asynccontextmanager
async def pgqueuer_queries(url: str) -> AsyncIterator[Any]:
    asyncpg = importlib.import_module("asyncpg")
    async with asyncpg.create_pool(url, min_size=2, max_size=4) as pool:
        yield importlib.import_module("pgqueuer.queries").Queries.from_asyncpg_pool(pool)


WORKERS: dict[str, Worker] = {"huey": huey_worker, "repid": repid_worker, "pgqueuer": pgqueuer_worker}
