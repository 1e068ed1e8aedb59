"""A line to a server that can be cut, before a request reaches the server or after it has been done there.

It runs on a thread of its own, because who calls the store may block. Bytes are passed on as they are; requests are
told apart by the server's protocol, so that a cut falls between two of them and never inside of one. What counts as a
call is a script on Redis, and the COMMIT of a transaction on PostgreSQL.
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
    """Where the line is cut."""

    BEFORE = "before the call has an effect"
    AFTER = "after the call had its effect, and before its answer"


class Proxy:
    """Passes on what is said to and by the server at `port`, and cuts lines as told.

    `plan` says what becomes of the next calls of scripts, one each: None passes it on. After the plan, a `chance` of
    them is cut, on either side. `requests` counts all that was asked, `calls` the scripts, `cuts` what was cut. `open`
    says whether new lines are taken at all.
    """

    def __init__(self, port: int, random: Random | None = None) -> None:
        self.plan: deque[Cut | None] = deque()
        self.chance = 0.0
        self.requests = self.calls = self.cuts = 0
        self.open = True
        self.port = 0
        self._server_port, self._random = port, random or Random(0)
        self._lines: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """What laneway takes."""
        return f"redis://{HOST}:{self.port}/0"

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        """Pass on until `stop` is set."""
        server = await asyncio.start_server(self._take, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for line in list(self._lines):
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)
        await asyncio.sleep(0)  # a transport closes its socket in the loop's next turn

    async def _take(self, asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lines.add(task)
        task.add_done_callback(self._lines.discard)
        try:
            if self.open:
                with suppress(OSError):
                    await self.line(asking, answering).pass_on(self._server_port)
        finally:
            answering.transport.abort()

    def line(self, asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> Line:
        """Return what passes on one connection."""
        return _RedisLine(self, asking, answering)

    def judge(self, *, call: bool) -> Cut | None:
        """Tell what becomes of a request, which is a call or something else."""
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


class Line(ABC):
    """One connection: what is asked goes one way, the answers the other, until either side or a cut ends it."""

    def __init__(self, proxy: Proxy, asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> None:
        self._proxy, self._asking, self._answering = proxy, asking, answering

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
        """Pass on what is asked, until a cut."""

    @abstractmethod
    async def _answers(self, server: asyncio.StreamReader) -> None:
        """Pass on what is answered, until a cut."""


class _RedisLine(Line):
    def __init__(self, proxy: Proxy, asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> None:
        super().__init__(proxy, asking, answering)
        self._asked = self._answered = 0
        self._kept: int | None = None  # the first answer that is not passed on

    async def _requests(self, server: asyncio.StreamWriter) -> None:
        requests = hiredis.Reader()
        while data := await self._asking.read(1 << 16):
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
            self._answering.write(data)
            await self._answering.drain()


def _all(reader: hiredis.Reader) -> Iterator[Any]:
    while (found := reader.gets()) is not False:
        yield found


@contextmanager
def proxy_to(port: int, random: Random | None = None) -> Iterator[Proxy]:
    """Put a line in front of the Redis server at that port of this machine."""
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
