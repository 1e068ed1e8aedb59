"""A Redis server without laneway: the baselines of its store.

All of it is measured on a private Valkey that keeps nothing on disk, as the stores of the other half are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import hiredis
from redis.asyncio import Redis

from bench.baselines import BODY
from bench.plan import Plan
from bench.rows import Turn
from laneway.testing.servers import valkey_server

KEY = "bare"


class Pushing(asyncio.Protocol):
    """The minimum for callers who share a connection: the commands of one turn of the loop go out in one piece."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader, self._asked = hiredis.Reader(), deque[asyncio.Future[object]]()
        self._waiting: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._asked.popleft().set_result(reply)

    def push(self) -> asyncio.Future[object]:
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append(hiredis.pack_command(("LPUSH", KEY, BODY)))  # type: ignore[arg-type]  # declared for one type
        answer: asyncio.Future[object] = self._loop.create_future()
        self._asked.append(answer)
        return answer

    def close(self) -> None:
        self._transport.close()

    def _send(self) -> None:
        self._transport.write(b"".join(self._waiting))
        self._waiting.clear()


@asynccontextmanager
async def awaiting(plan: Plan, callers: int) -> AsyncIterator[Turn]:
    """LPUSHes a second of 200 bytes by so many callers who share a connection, each awaiting every answer."""
    each = 5 * plan.runs // callers
    async with pushing() as wire:

        async def caller() -> None:
            for _ in range(each):
                await wire.push()

        async def turn() -> float:
            start = perf_counter()
            await asyncio.gather(*[caller() for _ in range(callers)])
            return each * callers / (perf_counter() - start)

        yield turn


@asynccontextmanager
async def pipelining(plan: Plan, at_once: int) -> AsyncIterator[Turn]:
    """LPUSHes a second of 200 bytes, so many sent in one piece before their answers are read."""
    number = 5 * plan.runs
    async with pushing() as wire:

        async def turn() -> float:
            start = perf_counter()
            for _ in range(number // at_once):
                for answer in [wire.push() for _ in range(at_once)]:
                    await answer
            return number / (perf_counter() - start)

        yield turn


@asynccontextmanager
async def pushing() -> AsyncIterator[Pushing]:
    """By hiredis alone: redis-py lets one caller at a time use a connection, and its pipelines are slower."""
    with valkey_server() as server:
        _, wire = await asyncio.get_running_loop().create_connection(Pushing, "127.0.0.1", server.port)
        yield wire
        wire.close()


@asynccontextmanager
async def redis_py(plan: Plan, at_once: int) -> AsyncIterator[Turn]:
    """The same as `pipelining` by redis-py's pipelines."""
    async with client() as redis:

        async def turn() -> float:
            start = perf_counter()
            for _ in range(plan.runs // at_once):
                pipeline = redis.pipeline(transaction=False)
                for _ in range(at_once):
                    pipeline.execute_command("LPUSH", KEY, BODY)
                await pipeline.execute()
            return plan.runs / (perf_counter() - start)

        yield turn


async def ping_times(plan: Plan, rest: float = 0) -> list[float]:
    """Return how long each PING of redis-py takes, in ms: back to back, or after a rest of so many seconds."""
    times = []
    async with client() as redis:
        await redis.ping()
        for _ in range(plan.samples):
            start = perf_counter()
            await redis.ping()
            times.append((perf_counter() - start) * 1000)
            if rest:
                await asyncio.sleep(rest)
    return times


@asynccontextmanager
async def client() -> AsyncIterator[Redis]:
    with valkey_server() as server:
        redis = Redis.from_url(server.url, single_connection_client=True)
        try:
            yield redis
        finally:
            await redis.aclose()
