"""How a verb of the store reaches its thread: the writer's inside a transaction, or the reader's in a snapshot."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from laneway.ports.clock import Clock
from laneway.stores.sqlite.connection import Place
from laneway.stores.sqlite.effects import Effects
from laneway.stores.sqlite.presence import Presence

T = TypeVar("T")


class Asking:
    """Where the file is, and what the store has in this process to reach it."""

    def __init__(self, path: str | os.PathLike[str], clock: Clock, *, busy_timeout: float = 5.0) -> None:
        self._place = Place(Path(path).absolute(), busy_timeout)
        self._clock = clock
        self._presence = Presence(self._place)

    async def open(self) -> None:
        """Create or migrate the file; see `Store`."""
        if self._here.closed:
            self._presence = Presence(self._place)
        await self._open()

    async def close(self) -> None:
        """Let go of the file and the threads; see `Store`."""
        await asyncio.get_running_loop().run_in_executor(None, self._here.close)

    @property
    def _here(self) -> Presence:
        # Fork: the parent's threads are not here.
        if self._presence.pid != os.getpid():
            self._presence = Presence(self._place)
        return self._presence

    async def _open(self) -> None:
        here = self._here
        await here.writer.write(lambda _, __: None)
        here.opened = True

    async def _write(
        self, work: Callable[[sqlite3.Connection, Effects], T], *, durable: bool = True, remembers: bool = False
    ) -> T:
        here = self._here
        answer = await here.writer.write(work, durable=durable, remembers=remembers)
        here.opened = True
        return answer

    async def _read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        here = self._here
        # The reader never creates the file: a question to a store that was not opened opens it first.
        if not here.opened:
            await self._open()
        return await here.reader.ask(question)
