"""A proxy that cuts connections to a PostgreSQL server before a COMMIT, or after it and before its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from random import Random

from tests.system.faults.proxy import HOST, Cut, ProxiedConnection, Proxy, serving

LENGTH = 4  # bytes that say how long a message is, themselves included
COMMIT = b"COMMIT"


class PostgresProxy(Proxy):
    """Passes on the messages to and from a PostgreSQL server; a call is a COMMIT."""

    def url_of(self, database: str) -> str:
        """Return the URL of a store; nothing is encrypted, because the proxy reads the messages."""
        return f"postgresql://postgres@{HOST}:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> ProxiedConnection:
        """Return what serves one connection."""
        return _PostgresConnection(self, reader, writer)


class _PostgresConnection(ProxiedConnection):
    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(proxy, reader, writer)
        self._prepared: dict[bytes, bytes] = {}
        self._silent = False  # from the next COMMIT on

    async def _requests(self, server: asyncio.StreamWriter) -> None:
        messages = _Messages(typed=False)
        while data := await self._reader.read(1 << 16):
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
                self._writer.write(message)
            await self._writer.drain()

    def _commits(self, message: bytes) -> bool:
        """Tell whether this message commits a transaction: by its text, or by the name of a prepared statement."""
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
    """Splits bytes into messages; the first message of a client has no type."""

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
    """Put a proxy in front of the PostgreSQL server at that port of this machine."""
    return serving(PostgresProxy(port, random))
