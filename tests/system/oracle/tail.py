"""Reading a file of JSON lines that other processes are still writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Tail(Generic[T]):
    """The lines that are there whole; reading again costs only what is new. `kind` is what a line is."""

    def __init__(self, path: Path, kind: Any) -> None:
        self._path = path
        self._lines: list[T] = []
        self._read = 0
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def lines(self) -> list[T]:
        """Return all lines so far, in the order they were written."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            self._lines += [self._decoder.decode(line) for line in whole.splitlines()]
        return self._lines
