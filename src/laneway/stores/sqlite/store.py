"""The SQLite store: the verbs of `stores.tables` over one file.

Every verb is work for one of two threads: the writer's, inside a transaction, or the reader's, in a snapshot. Nothing
is kept in memory between two verbs, so any number of processes can share the file.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from laneway.ports.clock import Clock
from laneway.ports.upkeep import Examination
from laneway.stores.sqlite import examination
from laneway.stores.sqlite.connection import StoreFile
from laneway.stores.sqlite.runtime import SQLiteRuntime
from laneway.stores.tables.runtime.access import StoreAccess
from laneway.stores.tables.store import TableStore


class SQLiteStore(TableStore[SQLiteRuntime]):
    """A store in a SQLite file. `busy_timeout` is how many seconds to wait for another process's lock."""

    def __init__(self, path: str | os.PathLike[str], clock: Clock, *, busy_timeout: float = 5.0) -> None:
        # Not a link to the file: SQLite puts the log beside the file itself.
        self._file = StoreFile(Path(os.path.realpath(path)), busy_timeout)
        super().__init__(StoreAccess(lambda: SQLiteRuntime(self._file, clock.now)))

    async def examine(self, *, deep: bool = True) -> Examination:
        """Examine the file from outside; see `UpkeepStore`."""
        return await asyncio.to_thread(examination.examine, self._file, deep=deep)
