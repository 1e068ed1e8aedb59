"""The diary of the test of steps: which effects a run had in the world, and what its handler got to hear of them.

Beside the journal, which says when a handler ran. A line is one `write`, and lies on the disk before its writer goes
on: so no effect is unknown, whenever its process is killed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tests.system.oracle.journal import PATH
from tests.system.oracle.tail import Tail


class Did(msgspec.Struct, frozen=True, tag="did"):
    """A step's function was executed; `mark` is its own, `token` what the step offers to tell a repetition by."""

    run: str
    fence: int
    step: str
    mark: str
    token: str


class Got(msgspec.Struct, frozen=True, tag="got"):
    """What `ctx.step`, `ctx.ask` or `ctx.call` returned to a handler."""

    run: str
    fence: int
    name: str
    value: Any


Entry = Did | Got


class Diary:
    """Writes and reads the entries of all processes; reading again costs only what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._tail: Tail[Entry] = Tail(path, Entry)

    @classmethod
    def of_environment(cls) -> Diary:
        """Return the diary of this process's stage."""
        return cls.beside(Path(os.environ[PATH]))

    @classmethod
    def beside(cls, journal: Path) -> Diary:
        """Return the diary that belongs to a journal."""
        return cls(journal.with_name("diary"))

    def write(self, entry: Entry) -> None:
        """Write one entry; it is on the disk when this returns."""
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.write(self._file, msgspec.json.encode(entry) + b"\n")
        os.fsync(self._file)

    def entries(self) -> list[Entry]:
        """Return all entries so far, in the order they were written."""
        return self._tail.lines()

    def did(self) -> Iterable[Did]:
        """Return the effects."""
        return [entry for entry in self.entries() if isinstance(entry, Did)]

    def got(self) -> Iterable[Got]:
        """Return what handlers got to hear."""
        return [entry for entry in self.entries() if isinstance(entry, Got)]
