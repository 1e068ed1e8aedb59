"""The SQLite store: the verbs of `stores.tables` over one file.

Every verb is a piece of work for one of two threads: the writer's, where it runs inside a transaction, or the reader's,
where it runs in a snapshot. The file alone says what holds, so any number of processes can share it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from laneway.ports.clock import Clock
from laneway.ports.upkeep import Examination
from laneway.stores.sqlite import examination
from laneway.stores.sqlite.connection import Place
from laneway.stores.sqlite.runtime import SQLiteRuntime
from laneway.stores.tables.runtime.access import StoreAccess
from laneway.stores.tables.store import TableStore


class SQLiteStore(TableStore[SQLiteRuntime]):
    """A store in a SQLite file. `busy_timeout` is how long to wait for another process's lock, in seconds."""

    def __init__(self, path: str | os.PathLike[str], clock: Clock, *, busy_timeout: float = 5.0) -> None:
        # Not a link to the file: SQLite has the log beside the file itself.
        self._place = Place(Path(os.path.realpath(path)), busy_timeout)
        super().__init__(StoreAccess(lambda: SQLiteRuntime(self._place, clock.now)))

    async def examine(self, *, deep: bool = True) -> Examination:
        """Look at the file from outside; see `UpkeepStore`."""
        return await asyncio.to_thread(examination.examine, self._place, deep=deep)
