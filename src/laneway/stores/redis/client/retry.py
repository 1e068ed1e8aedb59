"""Repeating a call that got no usable reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from laneway.errors import LanewayError, StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.connection import BrokenConnection, Connection, ReplyError
from laneway.stores.redis.client.errors import RETRYABLE, code_of, error_for
from laneway.stores.redis.client.loop_connection import LoopConnection
from laneway.stores.redis.client.topology import Topology, Unreachable

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds before a call is repeated
BREAKS = 3  # how often a call's connection may break if another server may take over; else once

Request = Callable[[Connection], Awaitable[Any]]


class RetriedCall:
    """One call, repeated until a usable reply comes, or for as long as a repeat can help.

    - The connection broke: repeated once on a new connection, at once. The server may have executed the first call.
    - The server is starting, busy or changing roles: repeated with pauses, up to the call's timeout.
    - No reply in time, or no server reached: not repeated.
    """

    def __init__(self, address: Address, topology: Topology, connections: LoopConnection, request: Request) -> None:
        self._address, self._topology, self._connections, self._request = address, topology, connections, request
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + address.timeout
        self._pause = 0.0
        self._breaks, self._breaks_allowed = 0, BREAKS if topology.may_move else 1
        self._maybe_done = False

    async def reply(self) -> Any:
        """Return the reply, which may be a ReplyError. Raises StoreUnavailable if there is none."""
        while True:
            connection: Connection | None = None
            try:
                connection = await self._connections.get()
                reply = await self._request(connection)
            except (Unreachable, BrokenConnection) as error:
                self._count(error)
            except ReplyError as error:
                # The server refused the login.
                if not is_retryable(error):
                    return error
                self._prepare_retry(error, connection)
            else:
                if not is_retryable(reply):
                    return reply
                self._prepare_retry(reply, connection)
            await self._wait()

    async def reply_after(self, first: BrokenConnection | ReplyError, connection: Connection | None = None) -> Any:
        """Return the reply, as `reply` does, after a first try that ended so."""
        if isinstance(first, BrokenConnection):
            self._count(first)
        else:
            self._prepare_retry(first, connection)
        await self._wait()
        return await self.reply()

    def _count(self, error: Unreachable | BrokenConnection) -> None:
        """Count a failed try; raise StoreUnavailable if it was the last one."""
        if isinstance(error, BrokenConnection):
            self._maybe_done = True
            self._breaks += 1
            if error.timed_out or self._breaks > self._breaks_allowed:
                raise StoreUnavailable(f"{self._address.shown}: {error}", maybe_done=True) from error
        elif not error.moving or self._is_over:
            raise StoreUnavailable(str(error), maybe_done=self._maybe_done) from error
        else:
            self._pause = max(self._pause, FIRST_PAUSE)

    def _prepare_retry(self, reply: ReplyError, connection: Connection | None) -> None:
        """Do what this reply asks for before the call is repeated; raise if it is too late for that."""
        text = str(reply)
        code = code_of(text)
        if self._is_over or (code == "MOVED" and not self._topology.may_move):
            error = error_for(text, self._address, maybe_done=self._maybe_done)
            assert isinstance(error, LanewayError)
            raise error from reply
        if code in ("MOVED", "READONLY") and connection is not None:
            self._connections.drop(connection)
        if code == "MOVED":
            self._topology.note_move(text)
        else:
            self._pause = max(self._pause, FIRST_PAUSE)

    @property
    def _is_over(self) -> bool:
        return self._loop.time() >= self._until

    async def _wait(self) -> None:
        if self._pause:
            await asyncio.sleep(min(self._pause, max(0.0, self._until - self._loop.time())))
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, self._pause * 2))


def is_retryable(reply: Any) -> bool:
    """Tell whether this reply means that the same call should be repeated."""
    return type(reply) is ReplyError and code_of(str(reply)) in RETRYABLE
