"""The connection of one event loop, shared by all callers on that loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from laneway.stores.redis.client.background_loop import CLOSED
from laneway.stores.redis.client.connection import Connection
from laneway.stores.redis.client.topology import Topology, Unreachable


class LoopConnection:
    """Connects when the connection is first needed, and again after it broke."""

    def __init__(self, loop: asyncio.AbstractEventLoop, topology: Topology) -> None:
        self._loop, self._topology = loop, topology
        self._closed = False
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._lifetime: AsyncGenerator[None, None] | None = None

    @property
    def current(self) -> Connection | None:
        """The connection, if there is one that is alive."""
        connection = self._connection
        return connection if connection is not None and connection.alive else None

    async def get(self) -> Connection:
        """Return the connection, or a new one for all callers that come meanwhile. Raises as `Topology.connect`."""
        connection = self.current
        if connection is not None:
            return connection
        if self._closed:
            raise Unreachable(CLOSED)
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        connecting = self._connecting
        # A caller that is cancelled must not cancel the connection of the others.
        await asyncio.wait([connecting])
        if connecting.cancelled():
            raise Unreachable(CLOSED)
        return connecting.result()

    def drop(self, connection: Connection) -> None:
        """Close this connection; callers that wait on it find it broken."""
        connection.close()
        if self._connection is connection:
            self._connection = None

    async def close(self) -> None:
        """Close the connection for good, from any loop; callers that wait for replies get the error at once."""
        self._closed = True
        if self._loop is asyncio.get_running_loop():
            self._end()
            if self._lifetime is not None:
                await self._lifetime.aclose()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def reset_after_fork(self) -> None:
        """Close the socket in a forked child."""
        self._closed = True
        if self._connection is not None:
            self._connection.reset_after_fork()

    async def _connect(self) -> Connection:
        if self._lifetime is None:
            # A loop that ends closes its generators first: asyncio gives no other sign of its end.
            self._lifetime = self._until_the_loop_ends()
            await anext(self._lifetime)
        self._connection = await self._topology.connect()
        return self._connection

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._end()
            # A transport closes its socket in the loop's next iteration.
            await asyncio.sleep(0)

    def _connected(self, connecting: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if not connecting.cancelled():
            connecting.exception()  # retrieved even if all callers are gone, else asyncio logs it

    def _end(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self.drop(self._connection)
