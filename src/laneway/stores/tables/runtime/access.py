"""How a verb of the store reaches its thread: the writer's inside a transaction, or the reader's in a snapshot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Generic, TypeVar

from laneway.stores.tables.runtime.after_commit import Effects
from laneway.stores.tables.runtime.move_state import refuse
from laneway.stores.tables.runtime.process_runtime import Presence
from laneway.stores.tables.sql.database import Database

T = TypeVar("T")
P = TypeVar("P", bound=Presence)


class Asking(Generic[P]):
    """What the store has in this process to reach its tables. `settle` makes it, anew in each process."""

    def __init__(self, settle: Callable[[], P]) -> None:
        self._settle = settle
        self._presence = settle()

    async def open(self) -> None:
        """Create or migrate the tables; see `Store`."""
        if self._here.closed:
            self._presence = self._settle()
        await self._open()

    async def close(self) -> None:
        """Let go of connections and threads; see `Store`."""
        await asyncio.get_running_loop().run_in_executor(None, self._here.close)

    @property
    def _here(self) -> P:
        # Fork: the parent's threads are not here.
        if self._presence.pid != os.getpid():
            self._presence = self._settle()
        return self._presence

    async def _open(self) -> None:
        here = self._here
        await here.writer.write(lambda _, __: None)
        here.opened = True

    async def _write(
        self, work: Callable[[Database, Effects], T], effects: Effects | None = None, *, gated: bool = True
    ) -> T:
        """Do the work; if it is `gated`, not while a move lets nothing change."""
        here = self._here
        answer = await here.writer.write(_gated(work) if gated else work, effects)
        here.opened = True
        return answer

    async def _read(self, question: Callable[[Database], T]) -> T:
        here = self._here
        # The reader creates nothing: a question to a store that was not opened opens it first.
        if not here.opened:
            await self._open()
        return await here.reader.ask(question)


def _gated(work: Callable[[Database, Effects], T]) -> Callable[[Database, Effects], T]:
    def gated(db: Database, effects: Effects) -> T:
        refuse(db, new=False)
        return work(db, effects)

    return gated
