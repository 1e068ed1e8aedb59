"""The process that submits to a peer, one job at a time: `python -m bench.peers.producer PEER URL COUNT PAUSE`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bench.peers.pickups import CHANNEL, huey_app, pgqueuer_queries, repid_app

Send = Callable[[float], Awaitable[None]]


async def produce(peer: str, url: str, count: int, pause: float) -> None:
    async with SENDERS[peer](url) as send:
        for _ in range(count + 1):
            await send(time.monotonic())
            await asyncio.sleep(pause)


@asynccontextmanager
async def huey_sender(url: str) -> AsyncIterator[Send]:
    _, task = huey_app(url, print)

    async def send(sent: float) -> None:
        task(sent)

    yield send


@asynccontextmanager
async def repid_sender(url: str) -> AsyncIterator[Send]:
    _, app = repid_app(url)

    async def send(sent: float) -> None:
        await app.send_message_json(channel=CHANNEL, payload={"sent": sent})

    async with app.servers.default.connection():
        yield send


@asynccontextmanager
async def pgqueuer_sender(url: str) -> AsyncIterator[Send]:
    async with pgqueuer_queries(url) as queries:

        async def send(sent: float) -> None:
            await queries.enqueue(CHANNEL, repr(sent).encode())

        yield send


SENDERS = {"huey": huey_sender, "repid": repid_sender, "pgqueuer": pgqueuer_sender}


if __name__ == "__main__":
    asyncio.run(produce(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
