"""What the tests of the Redis client share: scripts of one line, and clients that are closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha1

from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.client import RedisClient
from laneway.stores.redis.client.scripts import Script
from laneway.testing.servers import Server, ValkeyServer


def lua(text: str) -> Script:
    """Return a script of this text."""
    return Script("test", text, sha1(text.encode(), usedforsecurity=False).hexdigest(), ((1, "test"),))


ECHO = lua("return ARGV[1]")
COUNT = lua("return redis.call('INCR', KEYS[1] .. ':count')")


def with_parameter(url: str, parameter: str) -> str:
    """Return the address with one parameter more."""
    return f"{url}{'&' if '?' in url else '?'}{parameter}"


@asynccontextmanager
async def opened_client(url: str, *, timeout: float | None = None) -> AsyncIterator[RedisClient]:
    """Give an open client, and close it."""
    client = RedisClient(Address.parse(url if timeout is None else with_parameter(url, f"timeout={timeout}")))
    try:
        await client.open()
        yield client
    finally:
        await client.close()


def blocked(server: ValkeyServer) -> int:
    """Return how many clients wait in a blocking command."""
    return int(server.facts("clients")["blocked_clients"])


def is_busy(server: Server) -> bool:
    """Tell whether a script keeps the server from answering."""
    try:
        server.command("PING")
    except Exception as error:  # noqa: BLE001  # whatever it raises for BUSY
        return "BUSY" in str(error)
    return False


async def until(fact: Callable[[], bool]) -> None:
    """Wait until it is so, up to ten seconds."""
    deadline = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
