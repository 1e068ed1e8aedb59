"""The PostgreSQL store: the verbs of `stores.tables` in a schema of a database."""

from __future__ import annotations

import asyncio

from laneway.ports.clock import Clock
from laneway.ports.upkeep import Examination
from laneway.stores.postgres import examining
from laneway.stores.postgres.address import Address
from laneway.stores.postgres.presence import PostgresPresence
from laneway.stores.tables.store import TableStore


class PostgresStore(TableStore[PostgresPresence]):
    """A store in a PostgreSQL database. The server's clock is everybody's; a clock of one's own is for tests."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._address = Address.parse(url)
        super().__init__(lambda: PostgresPresence(self._address, None if clock is None else clock.now))

    async def examine(self, *, deep: bool = True) -> Examination:
        """Look at the schema from outside; see `UpkeepStore`."""
        return await asyncio.to_thread(examining.examine, self._address, deep=deep)
