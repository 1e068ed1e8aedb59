"""A line to a PostgreSQL server that can be cut before a COMMIT reaches it, or when it is done and not yet answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from random import Random

from tests.system.faults.proxy import HOST, Cut, Line, Proxy, serving

LENGTH = 4  # bytes that say how long a message is, themselves included
COMMIT = b"COMMIT"


class PostgresProxy(Proxy):
    """Passes on what is said to and by a PostgreSQL server; what counts as a call is a COMMIT."""

    def url_of(self, database: str) -> str:
        """Return what laneway takes; nothing is encrypted, because the line has to be read."""
        return f"postgresql://postgres@{HOST}:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def line(self, asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> Line:
        """Return what passes on one connection."""
        return _PostgresLine(self, asking, answering)


class _PostgresLine(Line):
    def __init__(self, proxy: Proxy, asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> None:
        super().__init__(proxy, asking, answering)
        self._prepared: dict[bytes, bytes] = {}
        self._silent = False  # from the next COMMIT on

    async def _requests(self, server: asyncio.StreamWriter) -> None:
        messages = _Messages(typed=False)
        while data := await self._asking.read(1 << 16):
            for message in messages.feed(data):
                cut = self._proxy.judge(call=self._commits(message))
                if cut is Cut.BEFORE:
                    return
                self._silent = self._silent or cut is Cut.AFTER
                server.write(message)
            await server.drain()

    async def _answers(self, server: asyncio.StreamReader) -> None:
        messages = _Messages(typed=True)
        while data := await server.read(1 << 16):
            for message in messages.feed(data):
                if self._silent and message[:1] == b"C" and message[5:].rstrip(b"\0") == COMMIT:
                    return
                self._answering.write(message)
            await self._answering.drain()

    def _commits(self, message: bytes) -> bool:
        """Tell whether this has a transaction committed: said in words, or by the name of what was prepared."""
        match message[:1]:
            case b"P":
                name, query, *_ = message[5:].split(b"\0")
                self._prepared[name] = query
            case b"B":
                _, name, *_ = message[5:].split(b"\0")
                return self._prepared.get(name) == COMMIT
            case b"Q":
                return message[5:].rstrip(b"\0") == COMMIT
        return False


class _Messages:
    """Tells messages apart; the first that a client sends has no type."""

    def __init__(self, *, typed: bool) -> None:
        self._typed, self._left = typed, b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._left += data
        while len(self._left) >= self._typed + LENGTH:
            size = self._typed + int.from_bytes(self._left[self._typed : self._typed + LENGTH], "big")
            if len(self._left) < size:
                return
            message, self._left, self._typed = self._left[:size], self._left[size:], True
            yield message


def postgres_proxy_to(port: int, random: Random | None = None) -> AbstractContextManager[PostgresProxy]:
    """Put a line in front of the PostgreSQL server at that port of this machine."""
    return serving(PostgresProxy(port, random))
