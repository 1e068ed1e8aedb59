"""Names of SQL statements. Each store keeps its own text of every statement, in files, under the same names.

`sql_names("runs")["by_id"]` is the statement under the line `-- name: by_id` of `runs.sql`. That file lies in a store's
`sql/`, in the same room as the module that executes the statement; no two rooms have a file of the same name. Each
statement has a sentence that says what it does and which index it relies on. Tests compare the stores' names.

*Locks*: no statement locks anything for its own sake. A writing transaction excludes all others from its first
statement to its COMMIT (SQLite: `BEGIN IMMEDIATE`; PostgreSQL: an advisory lock), a read happens in a snapshot.
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
    """Return the names of the statements in the file `sql/*/<file>.sql`."""
    return Names(file)


@cache
def texts(package: str) -> dict[str, str]:
    """Return the text of each statement in a package's `sql/`, by name."""
    found: dict[str, str] = {}
    for room in files(package).joinpath("sql").iterdir():
        for file in room.iterdir():
            stem = file.name.removesuffix(".sql")
            _, *parts = re.split(r"^-- name: (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            bodies = zip(parts[::2], parts[1::2], strict=True)
            found |= {f"{stem}.{title}": _bare(body) for title, body in bodies}
    return found


def as_json(values: Iterable[str | int | Row]) -> str:
    """Return values as a JSON array: the form in which a statement takes any number of them."""
    return msgspec.json.encode(list(values)).decode()


def _bare(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
