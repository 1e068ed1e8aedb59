"""repid, the fastest peer on Redis. It keeps no results, and acknowledges every message as it ends.

Of the settings that were tried these were its fastest: it reads 1,000 messages at a time and runs 50; the one task has
a channel to itself, so that no header needs to be read; its own converter, not pydantic's; nothing is kept alive, as
nothing reclaims. Its connections are a pool of redis-py's, with hiredis.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from redis.asyncio import Redis

from bench.plan import Plan
from bench.rows import Turn
from bench.subjects import payload
from laneway.testing.servers import valkey_server

READ_AT_ONCE = 1_000
IN_FLIGHT = 50
CHANNEL = "noop"
STREAM, GROUP = f"repid:{CHANNEL}", f"repid:{CHANNEL}:group"


@asynccontextmanager
async def draining(plan: Plan) -> AsyncIterator[Turn]:
    """Messages a second that one worker executes; they are sent before the clock starts."""
    number = plan.runs // 2

    async def turn() -> float:
        before = len(handled)
        await send(app, number, 100)
        start = perf_counter()
        # Nothing of it may wait for signals: they are the command's.
        await app.run_worker(messages_limit=number, tasks_limit=IN_FLIGHT, register_signals=[])
        taken = perf_counter() - start
        assert len(handled) == before + number, "repid has left messages undone"
        assert (await redis.xpending(STREAM, GROUP))["pending"] == 0, "repid has not acknowledged all messages"
        return number / taken

    async with opened() as (app, handled, redis):
        yield turn


@asynccontextmanager
async def submitting(plan: Plan, callers: int) -> AsyncIterator[Turn]:
    """Messages a second that so many callers send, each awaiting every one."""
    number = plan.runs // 2

    async def turn() -> float:
        before = await redis.xlen(STREAM)
        start = perf_counter()
        await send(app, number, callers)
        taken = perf_counter() - start
        assert await redis.xlen(STREAM) == before + number, "repid has not kept all messages"
        return number / taken

    async with opened() as (app, _, redis):
        yield turn


async def send(app: Any, number: int, callers: int) -> None:
    async def caller() -> None:
        for index in range(number // callers):
            await app.send_message_json(channel=CHANNEL, payload=payload(index))

    await asyncio.gather(*[caller() for _ in range(callers)])


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Any, list[int], Redis]]:
    """Give the application, the numbers that its handler has seen, and a client to check it by."""
    module = importlib.import_module("repid")
    app, router, handled = module.Repid(), module.Router(), list[int]()

    async def noop(number: int, text: str) -> int:
        handled.append(number)
        return number

    everything = module.catch_all_routing_strategy
    router.actor(channel=CHANNEL, routing_strategy=everything, converter=module.BasicConverter, keep_alive=False)(noop)
    app.include_router(router)
    with valkey_server() as server:
        app.servers.register_server("main", module.RedisServer(server.url, batch_size=READ_AT_ONCE), is_default=True)
        async with app.servers.default.connection(), Redis.from_url(server.url) as redis:
            yield app, handled, redis
