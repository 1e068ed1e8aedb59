"""Handlers of every kind, by how they react to a request to stop, and notes of when their code runs.

The notes are a file, because some of the code runs in processes of its own and some of it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from laneway import Context
from tests.support.waits import between_looks, thread_between_looks


class Told(Exception):
    """Raised by a handler that saw the request to stop."""


class Note(msgspec.Struct, frozen=True):
    """A handler's code began, or ended; when it began, what other code was still running."""

    what: str
    run: str
    fence: int
    pid: int
    beside: list[str] = []


class Notes:
    """The notes in a folder. A file `end` in the folder lets every handler return."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._file, self._end = self.folder / "notes", self.folder / "end"

    @contextlib.contextmanager
    def code(self, ctx: Context) -> Iterator[None]:
        """Note that code of this attempt runs in between."""
        self._write(Note("begins", ctx.run_id, ctx.fence, os.getpid(), self.running()))
        try:
            yield
        finally:
            self._write(Note("ends", ctx.run_id, ctx.fence, os.getpid()))

    def read(self) -> list[Note]:
        lines = self._file.read_bytes().splitlines() if self._file.exists() else []
        return [msgspec.json.decode(line, type=Note) for line in lines]

    def begun(self, run: str, fence: int = 1) -> bool:
        return any((note.run, note.fence) == (run, fence) for note in self.read())

    def running(self) -> list[str]:
        """Return the runs whose code is running now."""
        open_: dict[tuple[str, int], int] = {}
        for note in self.read():
            if note.what == "begins":
                open_[note.run, note.fence] = note.pid
            else:
                del open_[note.run, note.fence]
        return [run for (run, _), pid in open_.items() if is_alive(pid)]

    def beside(self) -> list[list[str]]:
        """Return for every start of code which other code was still running."""
        return [note.beside for note in self.read() if note.what == "begins"]

    def let_end(self) -> None:
        self._end.touch()

    @property
    def may_end(self) -> bool:
        return self._end.exists()

    def _write(self, note: Note) -> None:
        with self._file.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(note) + b"\n")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def waits(folder: str, saves: bool = False, *, ctx: Context) -> Any:
    """Stop when cancelled."""
    notes = Notes(folder)
    with notes.code(ctx):
        while not notes.may_end:
            if saves:
                await ctx.checkpoint(ctx.fence)
            await between_looks()
    return ctx.state


async def swallows(folder: str, saves: bool = False, *, ctx: Context) -> Any:
    """Go on when cancelled, however often."""
    notes = Notes(folder)
    with notes.code(ctx):
        while not notes.may_end:
            with contextlib.suppress(asyncio.CancelledError):
                await between_looks()
    return ctx.state


def looks(folder: str, saves: bool = False, *, ctx: Context) -> Any:
    """Look whether to stop."""
    notes = Notes(folder)
    with notes.code(ctx):
        while not notes.may_end:
            if ctx.cancelled:
                raise Told
            if saves:
                ctx.checkpoint(ctx.fence)
            thread_between_looks()
    return ctx.state


def goes_on(folder: str, saves: bool = False, *, ctx: Context) -> Any:
    """Do not look: in a thread nothing stops this, in a process SIGTERM does."""
    notes = Notes(folder)
    with notes.code(ctx):
        while not notes.may_end:
            if saves:
                ctx.checkpoint(ctx.fence)
            thread_between_looks()
    return ctx.state


def ignores_signals(folder: str, saves: bool = False, *, ctx: Context) -> Any:
    """Do not look, and do not heed SIGTERM either."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return goes_on(folder, ctx=ctx)


class Kind(NamedTuple):
    """A kind of handler: whether it can be stopped from outside, and whether it reaches checkpoints."""

    name: str
    handler: Callable[..., Any]
    process: bool = False
    can_be_stopped: bool = True
    saves: bool = True


KINDS = [
    Kind("async", waits),
    Kind("async that swallows cancellation", swallows, can_be_stopped=False, saves=False),
    Kind("thread that looks", looks),
    Kind("thread that does not", goes_on, can_be_stopped=False, saves=False),
    Kind("process that looks", looks, process=True),
    Kind("async process", waits, process=True),
    Kind("process that does not look", goes_on, process=True),
    Kind("process that ignores signals", ignores_signals, process=True, saves=False),
]
