"""A pooler: many clients, few connections to the server, each lent to a client for one transaction at a time.

It speaks as much of PostgreSQL's protocol as that takes. Clients find a server that has greeted them already; a
connection goes back when the server says that it is idle and owes no answer.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_PROTOCOL = (196608).to_bytes(4, "big")
_ASKING = {b"Q", b"S"}  # messages that the server answers with ReadyForQuery


class Backend:
    """A connection to the server."""

    def __init__(self, number: int, reader: StreamReader, writer: StreamWriter) -> None:
        self.number, self.reader, self.writer = number, reader, writer
        self.greeting = b""

    async def greet(self, user: str, database: str) -> None:
        """Connect as a client does, and keep the server's greeting."""
        words = f"user\0{user}\0database\0{database}\0\0".encode()
        self.writer.write((len(words) + 8).to_bytes(4, "big") + _PROTOCOL + words)
        kind = b""
        while kind != b"Z":
            kind, message = await _message(self.reader)
            self.greeting += message


class Pooler:
    """Listens on `port`. `lent` has the connections that each client used, by the client's number."""

    def __init__(self, host: str, port: int, user: str, database: str, size: int) -> None:
        self._server, self._login, self._size = (host, port), (user, database), size
        self._loop = asyncio.new_event_loop()
        self._clients, self._pool = count(), asyncio.Queue[Backend]()
        self._backends: list[Backend] = []
        self.lent: defaultdict[int, set[int]] = defaultdict(set)
        self.port = self._loop.run_until_complete(self._listen())
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    async def _listen(self) -> int:
        for number in range(self._size):
            backend = Backend(number, *await asyncio.open_connection(*self._server))
            await backend.greet(*self._login)
            self._greeting = backend.greeting
            self._backends.append(backend)
            self._pool.put_nowait(backend)
        self._listener = await asyncio.start_server(self._come, "127.0.0.1", 0)
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """End everything."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._listener.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for backend in self._backends:  # also of clients that left in the middle of a transaction
            backend.writer.transport.abort()
        await asyncio.sleep(0)  # a transport closes its socket in the loop's next turn

    async def _come(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            if await _greeted(reader, writer):
                writer.write(self._greeting)
                await Client(next(self._clients), reader, writer, self).serve()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass  # it has gone
        finally:
            writer.transport.abort()

    async def lend(self, client: int) -> Backend:
        """Wait for a free connection."""
        backend = await self._pool.get()
        self.lent[client].add(backend.number)
        return backend

    def take_back(self, backend: Backend) -> None:
        """Free the connection."""
        self._pool.put_nowait(backend)


class Client:
    """A client."""

    def __init__(self, number: int, reader: StreamReader, writer: StreamWriter, pooler: Pooler) -> None:
        self._number, self._reader, self._writer, self._pooler = number, reader, writer, pooler
        self._backend: Backend | None = None
        self._owed = 0  # answers that the server has still to give
        self._in_between = False  # something was sent that no question has ended yet
        self._answering: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Pass on the client's messages until it leaves, between transactions."""
        while True:
            kind, message = await _message(self._reader)
            if kind == b"X":
                return
            if self._backend is None:
                self._backend = await self._pooler.lend(self._number)
                self._answering = asyncio.create_task(self._answer(self._backend))
            self._in_between = kind not in _ASKING
            self._owed += kind in _ASKING
            self._backend.writer.write(message)

    async def _answer(self, backend: Backend) -> None:
        while True:
            kind, message = await _message(backend.reader)
            self._writer.write(message)
            if kind != b"Z":
                continue
            self._owed -= 1
            if not self._owed and not self._in_between and message[-1:] == b"I":
                self._backend = None
                self._pooler.take_back(backend)
                return


async def _greeted(reader: StreamReader, writer: StreamWriter) -> bool:
    """Read a client's first message; tell whether it wants a connection."""
    while True:
        length = int.from_bytes(await reader.readexactly(4), "big")
        code = int.from_bytes((await reader.readexactly(length - 4))[:4], "big")
        if code not in (_SSL, _GSS):
            return code != _CANCEL
        writer.write(b"N")


async def _message(reader: StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


@contextmanager
def pooler(host: str, port: int, user: str, database: str, size: int) -> Iterator[Pooler]:
    """Run one for a while."""
    running = Pooler(host, port, user, database, size)
    try:
        yield running
    finally:
        running.close()
