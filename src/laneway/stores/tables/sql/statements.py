"""Names of SQL statements. What they say is a database's own business: each keeps its texts in files, by these names.

Every statement stands in a file of a store's `sql/` under a line `-- name: ...`, with a sentence about it and the index
it relies on. A test compares the names that the stores have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

Row = tuple[Any, ...]


class Names(dict[str, str]):
    """The statements of one file, by their names in it."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file

    def __missing__(self, title: str) -> str:
        name = self[title] = f"{self._file}.{title}"
        return name


def sql_names(file: str) -> Names:
    """Return the statements of a file of `sql/`."""
    return Names(file)


@cache
def texts(package: str) -> dict[str, str]:
    """Return what the statements of a package's `sql/` say, by name."""
    found: dict[str, str] = {}
    for file in files(package).joinpath("sql").iterdir():
        stem, _, ending = file.name.partition(".")
        if ending == "sql":
            _, *parts = re.split(r"^-- name: (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            bodies = zip(parts[::2], parts[1::2], strict=True)
            found |= {f"{stem}.{title}": _bare(body) for title, body in bodies}
    return found


def as_json(values: Iterable[str | int | Row]) -> str:
    """Return values as a JSON array, the form in which a statement takes any number of them."""
    return msgspec.json.encode(list(values)).decode()


def _bare(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
