"""Servers that are not what the tests have at hand: one that is too old, and one that is loading its data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import hiredis
import pytest

from laneway import Scheduler
from laneway.errors import StoreError, StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.client import RedisClient
from laneway.testing.servers import valkey_server
from tests.stores.redis.tools import opened_client

Answer = Callable[[bytes], bytes | None]  # to a command; None: the server behind answers
OLD = b"# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n"


@asynccontextmanager
async def fake(answer: Answer, port: int) -> AsyncIterator[str]:
    """Give the address of one that answers so, before the server at that port."""
    lines: list[asyncio.Task[None]] = []

    async def talk(asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> None:
        upstream, onward = await asyncio.open_connection("127.0.0.1", port)
        requests = hiredis.Reader()
        try:
            while data := await asking.read(1 << 16):
                requests.feed(data)
                while (request := requests.gets()) is not False:
                    said = answer(request[0].upper())
                    if said is None:
                        onward.write(hiredis.pack_command(tuple(request)))
                        said = await _one(upstream)
                    answering.write(said)
        finally:
            onward.transport.abort()
            answering.transport.abort()

    def take(asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> None:
        lines.append(asyncio.ensure_future(talk(asking, answering)))

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)
        await asyncio.sleep(0)  # a transport closes its socket in the loop's next turn


async def _one(upstream: asyncio.StreamReader) -> bytes:
    """Return one answer as it came."""
    answers, whole = hiredis.Reader(), b""
    while True:
        data = await upstream.read(1 << 16)
        whole += data
        answers.feed(data)
        if not data or answers.gets() is not False:
            return whole


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with valkey_server() as server:
        yield server.port


async def test_a_store_on_a_server_that_is_too_old_is_not_opened(port: int) -> None:
    def answer(command: bytes) -> bytes | None:
        return b"$%d\r\n%s\r\n" % (len(OLD), OLD) if command == b"INFO" else None

    async with fake(answer, port) as url:
        app = Scheduler(f"{url}?namespace=old")
        with pytest.raises(StoreError, match=r"is Redis 5\.0\.14, which is too old; laneway needs Redis 6\.2 or"):
            await app.open()
        with pytest.raises(StoreError, match="too old"):
            await app.runs()
        await app.aclose()

    async with opened_client(f"redis://127.0.0.1:{port}/0?namespace=old") as client:
        assert await client.command("KEYS", "laneway:{old}:*") == []


class Loading:
    """A server that loads its data until it was asked so often."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, command: bytes) -> bytes | None:
        if self.left == 0:
            return None
        self.left -= 1
        return b"-LOADING Redis is loading the dataset in memory\r\n"


async def test_a_store_on_a_server_that_is_loading_is_opened_when_it_has_loaded(port: int) -> None:
    loading = Loading(4)
    async with fake(loading, port) as url:
        app = Scheduler(f"{url}?namespace=loading")

        await app.open()

        assert loading.left == 0
        assert await app.runs() == []
        await app.aclose()


async def test_calls_to_a_server_that_is_loading_wait_and_are_done_once(port: int) -> None:
    loading = Loading(0)
    async with fake(loading, port) as url:
        app = Scheduler(f"{url}?namespace=calls")

        @app.task
        async def work() -> None: ...

        await app.submit(work)
        loading.left = 4
        await app.submit(work)
        assert loading.left == 0
        loading.left = 4

        assert len(await app.runs()) == 2

        assert loading.left == 0
        await app.aclose()


async def test_who_waits_too_long_for_a_server_that_is_loading_is_told(port: int) -> None:
    async with fake(Loading(10**9), port) as url:
        client = RedisClient(Address.parse(f"{url}?timeout=0.2"))

        with pytest.raises(StoreUnavailable, match=r"^redis://127\.0\.0\.1:\d+/0 is still loading its data$") as caught:
            await client.open()

        assert not caught.value.maybe_done
        await client.close()
