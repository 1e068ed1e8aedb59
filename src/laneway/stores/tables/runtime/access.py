"""How a verb of the store reaches its thread: the writer's inside a transaction, or the reader's in a snapshot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Generic, TypeVar

from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.commit_options import DEFAULT, CommitOptions
from laneway.stores.tables.runtime.move_state import refuse
from laneway.stores.tables.runtime.process_runtime import ProcessRuntime
from laneway.stores.tables.sql.database import Database

T = TypeVar("T")
R = TypeVar("R", bound=ProcessRuntime)


class StoreAccess(Generic[R]):
    """Opens and closes the runtime of a store, and sends work to its threads.

    `make_runtime` makes the runtime: once in each process that uses the store, and again after `close`.
    """

    def __init__(self, make_runtime: Callable[[], R]) -> None:
        self._make_runtime = make_runtime
        self._made = make_runtime()

    async def open(self) -> None:
        """Create or migrate the tables."""
        if self.runtime.closed:
            self._made = self._make_runtime()
        await self._open()

    async def close(self) -> None:
        """Close connections and end threads."""
        await asyncio.get_running_loop().run_in_executor(None, self.runtime.close)

    @property
    def runtime(self) -> R:
        """The runtime of this process."""
        # Fork: the parent's threads are not in this process.
        if self._made.pid != os.getpid():
            self._made = self._make_runtime()
        return self._made

    async def _open(self) -> None:
        runtime = self.runtime
        await runtime.writer.call(lambda _, __: None)
        runtime.opened = True

    async def write(
        self, work: Callable[[Database, AfterCommit], T], options: CommitOptions = DEFAULT, *, gated: bool = True
    ) -> T:
        """Do the work in a transaction; `gated` work is refused while a move lets nothing change."""
        runtime = self.runtime
        answer = await runtime.writer.call(_gated(work) if gated else work, options)
        runtime.opened = True
        return answer

    async def read(self, question: Callable[[Database], T]) -> T:
        """Do the read in a snapshot."""
        runtime = self.runtime
        # The reader creates nothing: a question to a store that was not opened opens it first.
        if not runtime.opened:
            await self._open()
        return await runtime.reader.call(question)


def _gated(work: Callable[[Database, AfterCommit], T]) -> Callable[[Database, AfterCommit], T]:
    def gated(db: Database, after_commit: AfterCommit) -> T:
        refuse(db, new=False)
        return work(db, after_commit)

    return gated
