"""Names of SQL statements. Each store keeps its own text of every statement, in files, under the same names.

`sql_names("runs")["by_id"]` is the statement under the line `-- name: by_id` of `runs.sql`. That file lies in a store's
`sql/`, in the same room as the module that executes the statement; no two rooms have a file of the same name. Each
statement has a sentence that says what it does and which index it relies on. Tests compare the stores' names.

*Columns of a run.* They are listed here only. In a statement, `{run.fields}` stands for the columns of the view
`record`, which are the fields of a `Run`; `{run.columns}` for the columns of the table `run`, `{run.names}` for the
same where SQL allows no name of the table before them, and `{run.values}` for a parameter for each of them.

*Locks*: no statement locks anything for its own sake. A writing transaction excludes all others from its first
statement to its COMMIT (SQLite: `BEGIN IMMEDIATE`; PostgreSQL: an advisory lock), a read happens in a snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any

import msgspec

from laneway.core.records.run import Run

Row = tuple[Any, ...]

RUN_FIELDS = Run.__struct_fields__
# The columns of the table `run`, and their types.
RUN_COLUMNS = {
    "number": "bigint",
    "id": "text",
    "task": "text",
    "lane": "text",
    "user": "text",
    "session": "text",
    "priority": "int",
    "retry_of": "text",
    "arrival": "text",
    "accepted_at": "bigint",
    "due_at": "bigint",
    "rank": "bigint",
    "args": "text",
    "ties": "text",
}


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


def texts(package: str, parameter: Callable[[int, str], str]) -> dict[str, str]:
    """Return the text of each statement in a package's `sql/`, by name.

    `parameter` returns how the store writes a statement's nth parameter, of a type.
    """
    values = [parameter(nth, kind) for nth, kind in enumerate(RUN_COLUMNS.values(), 1)]
    columns = {
        "{run.fields}": ", ".join(map(_quoted, RUN_FIELDS)),
        "{run.columns}": ", ".join(f"run.{_quoted(column)}" for column in RUN_COLUMNS),
        "{run.names}": ", ".join(map(_quoted, RUN_COLUMNS)),
        "{run.values}": ", ".join(values),
    }
    found: dict[str, str] = {}
    for room in files(package).joinpath("sql").iterdir():
        for file in room.iterdir():
            stem = file.name.removesuffix(".sql")
            _, *parts = re.split(r"^-- name: (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            bodies = zip(parts[::2], parts[1::2], strict=True)
            found |= {f"{stem}.{title}": _filled(_bare(body), columns) for title, body in bodies}
    return found


def as_json(values: Iterable[str | int | Row]) -> str:
    """Return values as a JSON array: the form in which a statement takes any number of them."""
    return msgspec.json.encode(list(values)).decode()


def _quoted(column: str) -> str:
    return f'"{column}"' if column == "user" else column  # a keyword of PostgreSQL


def _filled(text: str, columns: dict[str, str]) -> str:
    for place, names in columns.items():
        text = text.replace(place, names)
    return text


def _bare(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
