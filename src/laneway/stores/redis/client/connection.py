"""One connection to a server, shared by all who ask on its loop.

What is asked goes out at once and the answers come back in the order of the questions, so any number of callers need
one connection, and nobody waits for a free one. Who stops waiting leaves a cancelled future behind; its answer is read
and dropped when it comes, so an answer can never reach somebody else. A connection on which the oldest question got no
answer in time is broken off, with all the others that wait on it: they stand behind it.

Nothing is ever sent twice from here.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from laneway.stores.redis.client.forking import let_go

KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # seconds, seconds, times

LONG = 16_384  # bytes of a last part; hiredis makes room for longer ones again and again, 0.4 ms for 160,000 bytes
NOTHING = b"$0\r\n\r\n"  # a part that is empty

Part = str | bytes | int
Failed = hiredis.ReplyError  # what an error of the server is answered with


class Broken(Exception):
    """The connection ended before the answer came; `silent` if that was because the server did not answer in time."""

    def __init__(self, text: str, *, silent: bool = False) -> None:
        super().__init__(text)
        self.silent = silent


def packed(*parts: Part) -> bytes:
    """Return a command as it is sent."""
    last = parts[-1]
    if type(last) is bytes and len(last) > LONG:
        head = hiredis.pack_command((*parts[:-1], b""))  # type: ignore[arg-type]
        return b"".join((head[: -len(NOTHING)], b"$%d\r\n" % len(last), last, b"\r\n"))
    command: bytes = hiredis.pack_command(parts)  # type: ignore[arg-type]  # its stub says: a tuple of one
    return command


class Wire(asyncio.Protocol):
    """Asks and hears. `heard`, if given, gets whatever comes that nobody asked for: a subscriber's messages."""

    def __init__(self, timeout: float, heard: Callable[[Any], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout, self._heard = timeout, heard
        self._reader = hiredis.Reader()
        self._asked: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()
        self._why = Broken("the connection was closed")

    @property
    def alive(self) -> bool:
        """Tell whether something can be asked."""
        return self._transport is not None

    async def gone(self) -> None:
        """Return when the connection has ended."""
        await self._gone.wait()

    def ask(self, command: bytes) -> asyncio.Future[Any]:
        """Send a packed command; the future gets the answer, an error of the server as a value, or raises Broken."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self._transport is None:
            answer.set_exception(self._reason())
            return answer
        self._asked.append((answer, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout, self._look)
        self._transport.write(command)
        return answer

    def ask_all(self, commands: bytes, count: int) -> list[asyncio.Future[Any]]:
        """Send so many packed commands at once; return the future of each one's answer."""
        return [self.ask(commands if not nth else b"") for nth in range(count)]

    def send(self, command: bytes) -> None:
        """Send a packed command whose answer `heard` gets."""
        if self._transport is not None:
            self._transport.write(command)

    def close(self, why: Broken | None = None) -> None:
        """End the connection; who waits for an answer gets Broken."""
        if why is not None:
            self._why = why
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._end()

    def forget(self) -> None:
        """Let go of it in a forked child, in which it is the parent's."""
        transport, self._transport = self._transport, None
        if transport is not None:
            let_go(transport.get_extra_info("socket").fileno())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # Not asserted: uvloop's transports are of no class of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEP_ALIVE.items():
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def data_received(self, data: bytes) -> None:
        """Hand out the answers that have come whole."""
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._hand_out(reply)
        except hiredis.ProtocolError as error:
            self.close(Broken(f"it does not speak Redis's protocol ({error})"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        if self._transport is not None:
            self._why = Broken(f"the connection broke ({exc})" if exc else "the server closed the connection")
            self._transport = None
        self._end()

    def _hand_out(self, reply: Any) -> None:
        if self._heard is not None and not self._asked:
            self._heard(reply)
        elif self._asked:
            answer, _ = self._asked.popleft()
            if not answer.done():
                answer.set_result(reply)
        else:
            # Before it closes the connection, a server may say why: too many clients, protected mode.
            self.close(Broken(f"the server said: {reply}"))

    def _look(self) -> None:
        """Break off if the oldest question is too old; else look again when it will be."""
        self._timer = None
        if not self._asked:
            return
        left = self._asked[0][1] + self._timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            # A loop that stood still itself has read the answers that are there before it looks at its timers.
            self.close(Broken(f"no answer within {self._timeout:g} s", silent=True))

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._asked:
            answer, _ = self._asked.popleft()
            if not answer.done():
                answer.set_exception(self._reason())
        self._gone.set()

    def _reason(self) -> Broken:
        return Broken(str(self._why), silent=self._why.silent)
