"""Asking again: what a call does when its answer was none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from laneway.errors import LanewayError, StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.connection import Broken, Failed, Wire
from laneway.stores.redis.client.errors import AGAIN, code_of, meant
from laneway.stores.redis.client.loop_connection import Shore
from laneway.stores.redis.client.topology import Reach, Unreachable

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds before a call is repeated
BREAKS = 3  # how often a call's connection may break where servers take each other's place; elsewhere once

Question = Callable[[Wire], Awaitable[Any]]


class Persisting:
    """One call, asked until there is an answer that counts, or for as long as asking again makes sense.

    - The connection broke: once more on a fresh one, at once. Such a call may have been done.
    - The server is starting, busy, or changing roles: again, with pauses, for as long as a call may take.
    - No answer in time, or nobody there: no more.
    """

    def __init__(self, address: Address, reach: Reach, shore: Shore, question: Question) -> None:
        self._address, self._reach, self._shore, self._question = address, reach, shore, question
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + address.timeout
        self._pause = 0.0
        self._breaks, self._breaks_allowed = 0, BREAKS if reach.moves else 1
        self._maybe_done = False

    async def answer(self) -> Any:
        """Return the answer, which may be an error of the server's; raise StoreUnavailable if none is to be had."""
        while True:
            wire: Wire | None = None
            try:
                wire = await self._shore.connected()
                reply = await self._question(wire)
            except (Unreachable, Broken) as error:
                self._weigh(error)
            except Failed as error:
                # The server did not let us in.
                if not heeds(error):
                    return error
                self._heed(error, wire)
            else:
                if not heeds(reply):
                    return reply
                self._heed(reply, wire)
            await self._rest()

    async def answer_after(self, first: Broken | Failed, wire: Wire | None = None) -> Any:
        """Return the answer, as `answer` does, when the first try came to this."""
        if isinstance(first, Broken):
            self._weigh(first)
        else:
            self._heed(first, wire)
        await self._rest()
        return await self.answer()

    def _weigh(self, error: Unreachable | Broken) -> None:
        if isinstance(error, Broken):
            self._maybe_done = True
            self._breaks += 1
            if error.silent or self._breaks > self._breaks_allowed:
                raise StoreUnavailable(f"{self._address.shown}: {error}", maybe_done=True) from error
        elif not error.moving or self._over:
            raise StoreUnavailable(str(error), maybe_done=self._maybe_done) from error
        else:
            self._pause = max(self._pause, FIRST_PAUSE)

    def _heed(self, reply: Failed, wire: Wire | None) -> None:
        said = str(reply)
        code = code_of(said)
        if self._over or (code == "MOVED" and not self._reach.moves):
            error = meant(said, self._address, maybe_done=self._maybe_done)
            assert isinstance(error, LanewayError)
            raise error from reply
        if code in ("MOVED", "READONLY") and wire is not None:
            self._shore.drop(wire)
        if code == "MOVED":
            self._reach.moved(said)
        else:
            self._pause = max(self._pause, FIRST_PAUSE)

    @property
    def _over(self) -> bool:
        return self._loop.time() >= self._until

    async def _rest(self) -> None:
        if self._pause:
            await asyncio.sleep(min(self._pause, max(0.0, self._until - self._loop.time())))
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, self._pause * 2))


def heeds(reply: Any) -> bool:
    """Tell whether this answer means that the same question should be asked again."""
    return type(reply) is Failed and code_of(str(reply)) in AGAIN
