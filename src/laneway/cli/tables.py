"""Small tables: on a terminal with quiet heads, in a pipe as aligned plain text."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.cli.output import console, is_terminal, one_line, print_columns

GAP = 2  # spaces between two columns


def show(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads. The last column may be long; on a terminal it is cut to what fits."""
    if not is_terminal():
        print_columns([tuple(head.upper() for head in heads), *map(tuple, rows)])
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bright_black")
    for head in heads:
        table.add_column(head, no_wrap=True, overflow="ellipsis")
    for first, *rest in rows:
        table.add_row(Text(one_line(first), style="bold"), *(Text(one_line(cell)) for cell in rest))
    console().print(table)
