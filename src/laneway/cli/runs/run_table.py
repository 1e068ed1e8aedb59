"""A list of runs: a table on a terminal, aligned plain text in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from laneway.cli.shell import formats
from laneway.cli.shell.output import console, is_terminal, one_line, print_columns, style, symbol

if TYPE_CHECKING:
    from laneway.core.records.run import Run

GAP = 2  # spaces between two columns
ROOM_FOR_NOTE = 24  # columns are left out until the note has at least so much
SHORTEST_NOTE = 10  # less than that says nothing
SHORTEST_TASK = 9
STAYS = 99


class Column(NamedTuple):
    """A column: its head, what stands in it, and whether it goes early (1) or late when the terminal is narrow."""

    head: str
    cell: Callable[[Run, datetime], str]
    goes: int = STAYS


TASK = Column("task", lambda run, _: run.task)
COLUMNS = (
    TASK,
    Column("user", lambda run, _: run.user or "", goes=6),
    Column("session", lambda run, _: run.session or "", goes=4),
    Column("lane", lambda run, _: run.lane, goes=1),
    Column("state", lambda run, _: f"{symbol(run.state)} {run.state.value}"),
    Column("attempt", lambda run, _: str(run.attempt), goes=5),
    Column("age", lambda run, now: formats.age(run.accepted_at, now), goes=7),
    Column("waited", formats.waited, goes=3),
    Column("ran", formats.ran, goes=2),
)


def show(runs: Sequence[Run]) -> None:
    """Print the runs in the order given."""
    if is_terminal():
        _table(runs)
    else:
        _plain(runs)


def _plain(runs: Sequence[Run]) -> None:
    now = formats.now()
    rows = [("ID", *(column.head.upper() for column in COLUMNS), "NOTE")]
    for run_id, run in zip(formats.short_ids([run.id for run in runs]), runs, strict=True):
        # Without the symbol: one word in each column, so that `awk '{print $6}'` finds the state.
        cells = (run.state.value if column.head == "state" else column.cell(run, now) for column in COLUMNS)
        rows.append((run_id, *cells, formats.note(run)))
    print_columns(rows)


def _table(runs: Sequence[Run]) -> None:
    from rich.table import Table
    from rich.text import Text

    out, now = console(), formats.now()
    ids = formats.short_ids([run.id for run in runs])
    notes = [one_line(formats.note(run)) for run in runs]
    cells = {column: [one_line(column.cell(run, now)) for run in runs] for column in COLUMNS}
    widths = fitting(cells, out.width - len(ids[0]) - GAP, wants_note=any(notes))
    left = out.width - len(ids[0]) - GAP - sum(width + GAP for width in widths.values())
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bright_black")
    table.add_column("id", width=len(ids[0]), no_wrap=True)
    for column, width in widths.items():
        table.add_column(column.head, width=width, no_wrap=True)
    if any(notes) and left >= SHORTEST_NOTE:
        table.add_column("note", width=left, no_wrap=True)
    for row, run in enumerate(runs):
        middle = [
            Text(cells[column][row], style=style(run.state) if column.head == "state" else "") for column in widths
        ]
        last = Text(notes[row], style="red" if run.state == "failed" else "bright_black")
        table.add_row(Text(ids[row], style="bold"), *middle, *([last] if len(table.columns) > len(widths) + 1 else []))
    out.print(table)


def fitting(cells: dict[Column, list[str]], room: int, *, wants_note: bool) -> dict[Column, int]:
    """Return the columns that say something and fit, with their widths; those that matter least go first."""
    from rich.cells import cell_len

    widths = {
        column: max(map(cell_len, (column.head, *texts))) for column, texts in cells.items() if any(map(len, texts))
    }
    room -= ROOM_FOR_NOTE if wants_note else 0

    def excess() -> int:
        return sum(width + GAP for width in widths.values()) - room

    for column in sorted(widths, key=lambda column: column.goes):
        if excess() > 0 and column.goes < STAYS:
            del widths[column]
    # What must stay may still be too wide: long task names are cut, and then the note does without its room.
    if excess() > 0:
        widths[TASK] = max(SHORTEST_TASK, widths[TASK] - excess())
    return widths
