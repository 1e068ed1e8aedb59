"""The connection of one event loop, shared by all who call from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from laneway.stores.redis.client.background_loop import CLOSED
from laneway.stores.redis.client.connection import Wire
from laneway.stores.redis.client.topology import Reach, Unreachable


class Shore:
    """Keeps one connection for a loop, made when it is first asked for and again after it broke."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reach: Reach) -> None:
        self._loop, self._reach = loop, reach
        self._left = False
        self._wire: Wire | None = None
        self._connecting: asyncio.Task[Wire] | None = None
        self._lifetime: AsyncGenerator[None, None] | None = None

    @property
    def wire(self) -> Wire | None:
        """The connection, if one is alive."""
        wire = self._wire
        return wire if wire is not None and wire.alive else None

    async def connected(self) -> Wire:
        """Return the connection, or a new one, for all who come meanwhile. Raises what `Reach.wire` does."""
        wire = self.wire
        if wire is not None:
            return wire
        if self._left:
            raise Unreachable(CLOSED)
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())
            self._connecting.add_done_callback(self._made)
        made = self._connecting
        # A caller that is cancelled must not take the others' connection away.
        await asyncio.wait([made])
        if made.cancelled():
            raise Unreachable(CLOSED)
        return made.result()

    def drop(self, wire: Wire) -> None:
        """Use this connection no more; who waits on it finds it broken."""
        wire.close()
        if self._wire is wire:
            self._wire = None

    async def leave(self) -> None:
        """Let go of the connection for good, from whatever loop; who waits for an answer is told at once."""
        self._left = True
        if self._loop is asyncio.get_running_loop():
            self._end()
            if self._lifetime is not None:
                await self._lifetime.aclose()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def forget(self) -> None:
        """Let go of the connection in a forked child."""
        self._left = True
        if self._wire is not None:
            self._wire.forget()

    async def _connect(self) -> Wire:
        if self._lifetime is None:
            # A loop that ends closes its generators first: the one sign of its end that asyncio gives.
            self._lifetime = self._until_the_loop_ends()
            await anext(self._lifetime)
        self._wire = await self._reach.wire()
        return self._wire

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._end()
            # A transport closes its socket in the loop's next turn.
            await asyncio.sleep(0)

    def _made(self, made: asyncio.Task[Wire]) -> None:
        self._connecting = None
        if not made.cancelled():
            made.exception()  # looked at, also if everybody who waited has gone

    def _end(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._wire is not None:
            self.drop(self._wire)
