"""The PostgreSQL store: the verbs of `stores.tables` over a schema of a database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from laneway.core.records.run import NewRun
from laneway.ports.clock import Clock
from laneway.ports.upkeep import Examination
from laneway.stores.postgres import examination
from laneway.stores.postgres.inbox.letters import PostgresLetter, StorePlace
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.transactions.reader import PostedError
from laneway.stores.postgres.transactions.runtime import PostgresRuntime
from laneway.stores.tables.runtime.access import StoreAccess
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.store import TableStore

T = TypeVar("T")


class PostgresAccess(StoreAccess[PostgresRuntime]):
    """Access to a store that has an inbox."""

    async def read(self, question: Callable[[Database], T]) -> T:
        """Do the read in a snapshot, after the submissions of the inbox are accepted."""
        while True:
            try:
                return await super().read(question)
            except PostedError:
                # Any writing transaction accepts them first.
                await self.write(lambda _, __: None)


class PostgresStore(TableStore[PostgresRuntime]):
    """A store in a PostgreSQL database. All processes use the server's clock; the parameter `clock` is for tests."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._address = Address.parse(url)
        self._home = StorePlace(self._address)
        super().__init__(PostgresAccess(lambda: PostgresRuntime(self._address, None if clock is None else clock.now)))

    def letter(self, new: NewRun) -> PostgresLetter:
        """Return a submission for a caller's own transaction; see `InboxStore`."""
        return PostgresLetter(self._home, new)

    async def examine(self, *, deep: bool = True) -> Examination:
        """Examine the schema from outside; see `UpkeepStore`."""
        return await asyncio.to_thread(examination.examine, self._address, deep=deep)
