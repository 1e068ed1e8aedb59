"""Small tables: on a terminal with quiet heads, in a pipe as aligned plain text."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.cli.shell.output import console, is_terminal, one_line, print_columns

GAP = 2  # spaces between two columns; 1 where there is no room
NAME, LAST = 24, 8  # the first and the last column are cut where there is no room, but not below this


def show(heads: Sequence[str], rows: Sequence[Sequence[str]], *, spare: Sequence[str] = ()) -> None:
    """Print rows under their heads. On a terminal the first and the last are cut if they are too long to fit.

    Columns that are `spare` are left out there, in that order, rather than cutting what stands between.
    """
    if not is_terminal():
        print_columns([tuple(head.upper() for head in heads), *map(tuple, rows)])
        return
    from rich.table import Table
    from rich.text import Text

    out = console()
    cells = [[one_line(cell) for cell in row] for row in rows]
    for name in spare:
        if _least(heads, cells) > out.width and name in heads:
            at = list(heads).index(name)
            heads, cells = [*heads[:at], *heads[at + 1 :]], [[*row[:at], *row[at + 1 :]] for row in cells]
    # A head of two words takes two lines: what stands under it is mostly a number.
    words = [head.replace("_", "\n") for head in heads]
    widths = _widths(heads, cells)
    gap = GAP if sum(widths) + GAP * (len(widths) - 1) <= out.width else 1
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bright_black")
    for column, least in ((-1, LAST), (0, NAME)):
        excess = sum(widths) + gap * (len(widths) - 1) - out.width
        widths[column] = max(min(widths[column], least), widths[column] - max(0, excess))
    for word, width in zip(words, widths, strict=True):
        table.add_column(word, width=width, no_wrap=True, overflow="ellipsis")
    for first, *rest in cells:
        table.add_row(Text(first, style="bold"), *map(Text, rest))
    out.print(table)


def _widths(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    columns = zip(*cells, strict=True)
    return [max(map(cell_len, (*head.split("_"), *column))) for head, column in zip(heads, columns, strict=True)]


def _least(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """Return how wide a terminal must be for nothing but the first and the last column to be cut."""
    first, *middle, last = _widths(heads, cells)
    return min(first, NAME) + sum(middle) + min(last, LAST) + len(heads) - 1
