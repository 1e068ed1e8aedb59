"""`laneway.toml`: reads it, and finds out whether it has changed since."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from laneway.errors import BadSetting

FILE = "laneway.toml"


class Stamp(NamedTuple):
    """The state of a file, as far as it can be compared without reading the file."""

    device: int
    inode: int
    size: int
    written: int  # in nanoseconds
    touched: int  # when its metadata, such as the name, was changed last

    @property
    def changed_at(self) -> int:
        """When the file became what it is, in microseconds since 1970."""
        return max(self.written, self.touched) // 1000


def stamp(file: Path) -> Stamp | None:
    """Return the file's stamp; None if it does not exist, or may not be looked at."""
    try:
        found = os.stat(file)  # noqa: PTH116  # Path's own does the same
    except OSError:
        return None
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def contents(file: Path) -> dict[str, Any] | None:
    """Return the content of the file, None if there is no file. Raises BadSetting if it cannot be read or parsed."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if not os.path.exists(file):  # noqa: PTH110  # Path's own raises if the folder may not be read
            return None
        raise BadSetting(f"{file} cannot be read: {error}") from error
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deep
        raise BadSetting(f"{file} is not TOML: {error}") from error


def tables(found: Mapping[str, Any], name: str, file: Path, example: str) -> dict[str, dict[str, Any]]:
    """Return the tables under a name, `[name.x]`, by x; `example` is shown if they are something else."""
    under = found.get(name, {})
    if not isinstance(under, dict) or not all(isinstance(fields, dict) for fields in under.values()):
        raise BadSetting(f"{file}: write each {name[:-1]} as a table: {example}")
    return under
