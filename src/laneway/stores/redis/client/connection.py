"""One connection to a server, shared by all callers of its event loop.

Commands go out at once, and replies come back in the order of the commands. So any number of callers need one
connection, and none waits for a free one. A caller that is cancelled leaves a cancelled future behind: its reply is
read and dropped, so it never reaches another caller.

If the oldest command gets no reply in time, the connection is closed, and all callers that wait on it get the error:
their replies would come behind that one.

This module never sends a command twice; `retry` does.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from laneway.stores.redis.client import forks

KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # seconds, seconds, times

LONG = 16_384  # bytes of a last part; hiredis reallocates again and again for longer ones, 0.4 ms for 160,000 bytes
EMPTY = b"$0\r\n\r\n"  # an empty part

Part = str | bytes | int
OnPush = Callable[[Any], None]
ReplyError = hiredis.ReplyError  # an error as a reply; it is returned, not raised


class BrokenConnection(Exception):
    """The connection ended before the reply came; `timed_out` if that was because no reply came in time."""

    def __init__(self, text: str, *, timed_out: bool = False) -> None:
        super().__init__(text)
        self.timed_out = timed_out


def pack_command(*parts: Part) -> bytes:
    """Return a command as bytes for the server."""
    last = parts[-1]
    if type(last) is bytes and len(last) > LONG:
        head = hiredis.pack_command((*parts[:-1], b""))  # type: ignore[arg-type]
        return b"".join((head[: -len(EMPTY)], b"$%d\r\n" % len(last), last, b"\r\n"))
    command: bytes = hiredis.pack_command(parts)  # type: ignore[arg-type]  # its stub says: a tuple of one
    return command


class Connection(asyncio.Protocol):
    """Sends commands and receives replies. `on_push` gets what comes without a command: messages to subscribers."""

    def __init__(self, timeout: float, on_push: OnPush | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout, self._on_push = timeout, on_push
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()
        self._why = BrokenConnection("the connection was closed")

    @property
    def alive(self) -> bool:
        """Tell whether a command can be sent."""
        return self._transport is not None

    async def closed(self) -> None:
        """Wait until the connection has ended."""
        await self._closed.wait()

    def send(self, command: bytes) -> asyncio.Future[Any]:
        """Send a packed command. The future gets the reply, which may be a ReplyError, or raises BrokenConnection."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        if self._transport is None:
            reply.set_exception(self._reason())
            return reply
        self._waiting.append((reply, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout, self._check_oldest)
        self._transport.write(command)
        return reply

    def send_all(self, commands: bytes, count: int) -> list[asyncio.Future[Any]]:
        """Send several packed commands in one piece; return the future of each reply."""
        return [self.send(commands if not nth else b"") for nth in range(count)]

    def send_only(self, command: bytes) -> None:
        """Send a packed command whose reply goes to `on_push`."""
        if self._transport is not None:
            self._transport.write(command)

    def close(self, why: BrokenConnection | None = None) -> None:
        """End the connection; callers that wait for replies get BrokenConnection."""
        if why is not None:
            self._why = why
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._end()

    def reset_after_fork(self) -> None:
        """Close the socket in a forked child; the parent goes on using it."""
        transport, self._transport = self._transport, None
        if transport is not None:
            forks.detach(transport.get_extra_info("socket").fileno())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; see `asyncio.Protocol`."""
        # Not asserted: uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEP_ALIVE.items():
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def data_received(self, data: bytes) -> None:
        """Deliver the replies that are complete; see `asyncio.Protocol`."""
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._deliver(reply)
        except hiredis.ProtocolError as error:
            self.close(BrokenConnection(f"it does not speak Redis's protocol ({error})"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all callers that wait; see `asyncio.Protocol`."""
        if self._transport is not None:
            text = f"the connection broke ({exc})" if exc else "the server closed the connection"
            self._why = BrokenConnection(text)
            self._transport = None
        self._end()

    def _deliver(self, reply: Any) -> None:
        if self._on_push is not None and not self._waiting:
            self._on_push(reply)
        elif self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_result(reply)
        else:
            # Before a server closes a connection it may send the reason: too many clients, protected mode.
            self.close(BrokenConnection(f"the server said: {reply}"))

    def _check_oldest(self) -> None:
        """Close the connection if the oldest command has waited too long; else check again when it will have."""
        self._timer = None
        if not self._waiting:
            return
        left = self._waiting[0][1] + self._timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_oldest)
        else:
            # A loop that was blocked itself reads the replies that have come before it runs its timers.
            self.close(BrokenConnection(f"no answer within {self._timeout:g} s", timed_out=True))

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(self._reason())
        self._closed.set()

    def _reason(self) -> BrokenConnection:
        return BrokenConnection(str(self._why), timed_out=self._why.timed_out)
