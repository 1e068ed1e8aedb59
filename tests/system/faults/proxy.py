"""A proxy that cuts connections to a server, before a request reaches the server or after it was executed there.

It runs on a thread of its own, because the caller of the store may block. Bytes are passed on as they are; the proxy
reads requests by the server's protocol, so that a cut falls between two of them and never inside one. A call is a
script on Redis, and the COMMIT of a transaction on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from random import Random
from typing import Any, TypeVar, cast

import hiredis

HOST = "127.0.0.1"
SCRIPTS = (b"FCALL", b"EVALSHA", b"EVAL")


P = TypeVar("P", bound="Proxy")


class Cut(Enum):
    """Where the connection is cut."""

    BEFORE = "before the call has an effect"
    AFTER = "after the call had its effect, and before its answer"


class Proxy:
    """Passes requests and answers on to and from the server at a port, and cuts connections.

    `plan` says what becomes of the next calls, one each: None passes it on. After the plan, a share `chance` of the
    calls is cut, on either side. `requests`, `calls`, `cuts` count. `open` says whether new connections are accepted.
    """

    def __init__(self, port: int, random: Random | None = None) -> None:
        self.plan: deque[Cut | None] = deque()
        self.chance = 0.0
        self.requests = self.calls = self.cuts = 0
        self.open = True
        self.port = 0
        self._server_port, self._random = port, random or Random(0)
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of a store."""
        return f"redis://{HOST}:{self.port}/0"

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        """Pass on until `stop` is set."""
        server = await asyncio.start_server(self._take, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # a transport closes its socket in the loop's next turn

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            if self.open:
                with suppress(OSError):
                    await self.connection(reader, writer).pass_on(self._server_port)
        finally:
            writer.transport.abort()

    def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> ProxiedConnection:
        """Return what serves one connection."""
        return _RedisConnection(self, reader, writer)

    def judge(self, *, call: bool) -> Cut | None:
        """Decide what becomes of a request, which is a call or something else."""
        self.requests += 1
        if not call:
            return None
        self.calls += 1
        if self.plan:
            cut = self.plan.popleft()
        else:
            cut = self._random.choice(list(Cut)) if self._random.random() < self.chance else None
        self.cuts += cut is not None
        return cut


class ProxiedConnection(ABC):
    """One connection: requests go one way, answers the other, until either side or a cut ends it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer

    async def pass_on(self, port: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        ways = [asyncio.ensure_future(way) for way in (self._requests(writer), self._answers(reader))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.transport.abort()

    @abstractmethod
    async def _requests(self, server: asyncio.StreamWriter) -> None:
        """Pass on requests, until a cut."""

    @abstractmethod
    async def _answers(self, server: asyncio.StreamReader) -> None:
        """Pass on answers, until a cut."""


class _RedisConnection(ProxiedConnection):
    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(proxy, reader, writer)
        self._asked = self._answered = 0
        self._kept: int | None = None  # the first answer that is not passed on

    async def _requests(self, server: asyncio.StreamWriter) -> None:
        requests = hiredis.Reader()
        while data := await self._reader.read(1 << 16):
            requests.feed(data)
            for request in _all(requests):
                cut = self._proxy.judge(call=request[0].upper() in SCRIPTS)
                if cut is Cut.BEFORE:
                    return
                self._asked += 1
                if cut is Cut.AFTER and self._kept is None:
                    self._kept = self._asked
                server.write(hiredis.pack_command(tuple(request)))
            await server.drain()

    async def _answers(self, server: asyncio.StreamReader) -> None:
        answers = hiredis.Reader()
        while data := await server.read(1 << 16):
            answers.feed(data)
            self._answered += sum(1 for _ in _all(answers))
            if self._kept is not None and self._answered >= self._kept:
                return
            self._writer.write(data)
            await self._writer.drain()


def _all(reader: hiredis.Reader) -> Iterator[Any]:
    while (found := reader.gets()) is not False:
        yield found


@contextmanager
def proxy_to(port: int, random: Random | None = None) -> Iterator[Proxy]:
    """Put a proxy in front of the Redis server at that port of this machine."""
    with serving(Proxy(port, random)) as proxy:
        yield proxy


@contextmanager
def serving(proxy: P) -> Iterator[P]:
    """Let a proxy serve."""
    ready, stopping = threading.Event(), list[Any]()

    async def main() -> None:
        stop = asyncio.Event()
        stopping[:] = [asyncio.get_running_loop(), stop]
        await proxy.serve(ready, stop)

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="proxy", daemon=True)
    thread.start()
    assert ready.wait(10), "the proxy did not start"
    try:
        yield proxy
    finally:
        loop, stop = cast(tuple[asyncio.AbstractEventLoop, asyncio.Event], stopping)
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
