"""The Redis store: every verb that changes something is one script, run by the server in one piece.

The rules are the core's, restated in Lua (`lua/`), because only the server can decide and write at once. The contract
and the model test compare both. What only reads is decided in Python, on what one script or transaction has read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.core.records.run import NewRun, Receipt
from laneway.stores.redis.client.errors import refuse_layout
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import receipts
from laneway.stores.redis.codec.keys import LAYOUT
from laneway.stores.redis.verbs.control import Steering
from laneway.stores.redis.verbs.examination import Examining
from laneway.stores.redis.verbs.moves import Moves, lanes_packed
from laneway.stores.redis.verbs.overviews import Explaining
from laneway.stores.redis.verbs.upkeep import Upkeep
from laneway.stores.redis.verbs.workers import Working


class RedisStore(Working, Steering, Explaining, Moves, Upkeep, Examining):
    """A store on a Redis or Valkey server. `clock` is given by tests; without one, the server's time holds."""

    async def open(self) -> None:
        """Connect, and make the namespace a store if it is none; see `Store`."""
        await self._link.open()
        layout = await self._call("upkeep/open", LAYOUT, lanes_packed())
        refuse_layout(layout, self._address.shown)
        if layout < LAYOUT:
            await self._call("upkeep/migrate")
        await self._make_functions()

    async def close(self) -> None:
        """Let go of the connections; see `Store`."""
        await self._link.close()

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Accept the batch; see `RunStore`."""
        return receipts(encode.ids(batch), await self._call("runs/submit", *encode.batch(batch)))

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` soon after every write; see `EventStore`."""
        return self._link.subscriptions.subscribe(f"{self._address.prefix}:said", changed)
