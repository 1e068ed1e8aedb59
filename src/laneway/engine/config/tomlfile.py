"""`laneway.toml`: what is read of it, and whether it is still the file that was read."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from laneway.errors import BadSetting

FILE = "laneway.toml"


class Stamp(NamedTuple):
    """What tells one state of a file from another without reading it."""

    device: int
    inode: int
    size: int
    written: int  # when, in nanoseconds
    touched: int  # when anything else of it was changed last, such as its name

    @property
    def changed_at(self) -> int:
        """When the file became what it is, in microseconds since 1970."""
        return max(self.written, self.touched) // 1000


def stamp(file: Path) -> Stamp | None:
    """Return what the file looks like from outside; None if it is not there, or nobody may look."""
    try:
        found = os.stat(file)  # noqa: PTH116  # as Path's own, and its fields are named the same
    except OSError:
        return None
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def contents(file: Path) -> dict[str, Any] | None:
    """Return what the file says, None if there is none. Raises BadSetting if it cannot be read, or is not TOML."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if not os.path.exists(file):  # noqa: PTH110  # Path's own raises where nobody may look
            return None
        raise BadSetting(f"{file} cannot be read: {error}") from error
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also what is nested too deep
        raise BadSetting(f"{file} is not TOML: {error}") from error


def tables(found: Mapping[str, Any], name: str, file: Path, example: str) -> dict[str, dict[str, Any]]:
    """Return the tables under a name, `[name.x]`, each by its own; `example` is said where they are something else."""
    under = found.get(name, {})
    if not isinstance(under, dict) or not all(isinstance(fields, dict) for fields in under.values()):
        raise BadSetting(f"{file}: write each {name[:-1]} as a table: {example}")
    return under
