"""Child processes that tests reuse, as attempts of one worker do: starting one takes half a second."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest

from laneway.engine.children import pool
from laneway.engine.children.process import ChildProcess
from laneway.engine.children.protocol import Leave, ToChild


class KeptChild(ChildProcess):
    """A child process that is kept for the next test instead of being ended. It is idle and healthy."""

    kept: ClassVar[list[KeptChild]] = []
    line: socket.socket | None = None  # ours to the child, while no loop has it

    @classmethod
    async def start(cls) -> ChildProcess:
        while cls.kept:
            child = cls.kept.pop()
            if await child.is_taken():
                return child
        return await super().start()

    def send(self, message: ToChild) -> None:
        if not isinstance(message, Leave) or self.died.done():
            super().send(message)
            return
        self.line = self._writer.get_extra_info("socket").dup()
        self.died.set_result(0)  # as far as its worker is concerned

    async def kill_and_wait(self) -> int:
        if self.line is None:
            return await super().kill_and_wait()
        self._writer.close()
        await self._writer.wait_closed()
        self.kept.append(self)
        return 0

    def _is_dead(self, status: int) -> None:
        if not self.died.done():
            super()._is_dead(status)

    async def is_taken(self) -> bool:
        """Attach the process to the running loop; return whether it is alive."""
        assert self.line is not None
        line, self.line = self.line, None
        self._loop = asyncio.get_running_loop()
        self.died = self._loop.create_future()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=line)
        if self._process is None:
            self._writer.close()
        return self._process is not None

    def let_go(self) -> None:
        """Close the connection, so that the process ends."""
        assert self.line is not None
        self.line.close()


@contextmanager
def children_kept() -> Iterator[None]:
    """Let workers take the processes that earlier tests kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "ChildProcess", KeptChild)
        yield


def let_children_go() -> None:
    """End the processes that were kept."""
    while KeptChild.kept:
        KeptChild.kept.pop().let_go()
