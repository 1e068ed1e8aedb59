"""How records are shown: one description for the table on a terminal, the plain lines in a pipe, and the JSON.

A `View` describes one kind of record. Its columns are what a list shows of each, its title and facts are the page of
one, and its `json` makes the values that programs read. Commands fetch records and pass them on; they format nothing.

On a terminal a table must fit. First the `spare` columns are left out, in their order; then the gaps get narrower; then
the columns that have a `least` width are cut, the last one first. A pipe gets everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import click

from laneway.cli.shell.errors import say
from laneway.cli.shell.formats import change
from laneway.cli.shell.output import console, is_terminal, one_line, print_json, print_ndjson

T = TypeVar("T")
Fact = tuple[str, str]  # name and value
Part = tuple[str, str]  # text and style
Block = tuple[str, str, str]  # heading, text of several lines, style
GAP = 2  # spaces between two columns
FIRST, LAST = 24, 8  # characters to which the first and the last column may be cut
MARGIN = 12  # characters before the values of a page
QUIET = "bright_black"


class Column(NamedTuple, Generic[T]):
    """One column of a list: its heading, and the value of a record in it; None is an empty cell."""

    head: str
    value: Callable[[T], object]
    optional: bool = False  # left out if it is empty for every record; on a terminal each column is
    spare: int = 0  # on a narrow terminal columns with a number are left out, 1 first
    least: int | None = None  # on a narrow terminal it may be cut to so many characters
    style: Callable[[T], str] | None = None
    shown: Callable[[list[str], bool], list[str]] | None = None  # changes all cells of the column; True: on a terminal


class View(Generic[T]):
    """How records of one kind are shown; see the module."""

    def __init__(
        self,
        *columns: Column[T],
        json: Callable[[T], Any],
        title: Callable[[T], str | Sequence[Part]] | None = None,
        facts: Callable[[T], Iterable[Fact]] | None = None,
        blocks: Callable[[T], Iterable[Block]] | None = None,
        gap: int = 1,
    ) -> None:
        """Describe records; `gap` is the least number of spaces between two columns on a terminal."""
        self.columns, self._json, self._gap = columns, json, gap
        self._title, self._facts, self._blocks = title, facts, blocks

    def record(self, record: T) -> Any:
        """Return the JSON value of a record."""
        return self._json(record)

    def show(self, record: T, *, as_json: bool = False) -> None:
        """Print everything about one record."""
        if as_json:
            print_json(self.record(record))
        else:
            assert self._title is not None
            assert self._facts is not None
            print_page(self._title(record), self._facts(record))
            for head, text, style in self._blocks(record) if self._blocks else ():
                _print_block(head, text, style)

    def show_all(
        self,
        records: Sequence[T],
        *,
        as_json: bool = False,
        ndjson: bool = False,
        none: str = "",
        limit: int | None = None,
        resume: Callable[[T], str] | None = None,
    ) -> None:
        """Print a list of records, or say on stderr that there is none.

        Of more than `limit` records only the first are shown; `resume` makes of the last one the option that shows the
        next page.
        """
        shown = records[:limit]
        if ndjson:
            print_ndjson(map(self.record, shown))
        elif as_json:
            print_json([self.record(record) for record in shown])
        elif shown:
            self.print_table(shown)
        elif none:
            say(none)
        if resume is not None and len(records) > len(shown):
            say(f"there are more; go on with {resume(shown[-1])}")

    def print_table(self, records: Sequence[T]) -> None:
        """Print the records as a table; columns that would be empty are left out as described in `Column`."""
        on_terminal = is_terminal()
        cells = {column: _cells(column, records, on_terminal) for column in self.columns}
        cells = {column: texts for column, texts in cells.items() if any(texts) or not (column.optional or on_terminal)}
        if on_terminal:
            self._print_fitting(records, cells)
        else:
            _print_plain([column.head.upper() for column in cells], list(cells.values()))

    def _print_fitting(self, records: Sequence[T], cells: dict[Column[T], list[str]]) -> None:
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        out = console()
        # A heading of two words takes two lines: the values under it are mostly short numbers.
        natural = {column: max(map(cell_len, (*column.head.split("_"), *texts))) for column, texts in cells.items()}
        widths, gap = fit(natural, out.width, self._gap)
        table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style=QUIET)
        for column, width in widths.items():
            table.add_column(column.head.replace("_", "\n"), width=width, no_wrap=True, overflow="ellipsis")
        first = next(iter(widths))
        for row, record in enumerate(records):
            table.add_row(*(Text(cells[column][row], _style(column, record, column is first)) for column in widths))
        out.print(table)


def _print_plain(heads: Sequence[str], columns: Sequence[Sequence[str]]) -> None:
    """Print aligned text; an empty cell is a dash, so that programs can count columns."""
    filled = [[head, *(text or "-" for text in texts)] for head, texts in zip(heads, columns, strict=True)]
    padded = [[text.ljust(max(map(len, column))) for text in column] for column in filled]
    for row in zip(*padded, strict=True):
        click.echo("  ".join(row).rstrip())


def fit(natural: dict[Column[T], int], room: int, least_gap: int = 1) -> tuple[dict[Column[T], int], int]:
    """Return the columns that fit into so much room with their widths, and the gap between them.

    `natural` are the widths that the columns would need.
    """
    widths = dict(natural)
    for column in sorted((column for column in natural if column.spare), key=lambda column: column.spare):
        if _total(_least(widths), least_gap) > room:
            del widths[column]
    gap = GAP if _total(widths, GAP) <= room else least_gap
    least = _least(widths)
    for column in reversed(widths):
        excess = _total(widths, gap) - room
        widths[column] = max(least[column], widths[column] - max(0, excess))
    # Very narrow: the last column gets what is left, or is left out.
    last, excess = list(widths)[-1], _total(widths, gap) - room
    if excess > 0 and widths[last] - excess >= LAST:
        widths[last] -= excess
    elif excess > 0:
        del widths[last]
    return widths, gap


def _least(widths: dict[Column[T], int]) -> dict[Column[T], int]:
    columns = list(widths)
    default = {columns[0]: FIRST, columns[-1]: LAST}
    return {column: min(width, column.least or default.get(column, width)) for column, width in widths.items()}


def _total(widths: dict[Column[T], int], gap: int) -> int:
    return sum(widths.values()) + gap * (len(widths) - 1)


def _cells(column: Column[T], records: Sequence[T], on_terminal: bool) -> list[str]:
    texts = [cell(column.value(record)) for record in records]
    return texts if column.shown is None else column.shown(texts, on_terminal)


def cell(value: object) -> str:
    """Return a value as the text of a cell."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else one_line(str(value))


def _style(column: Column[T], record: T, is_first: bool) -> str:
    if column.style is not None:
        return column.style(record)
    return "bold" if is_first else ""


def print_page(title: str | Sequence[Part], facts: Iterable[Fact]) -> None:
    """Print a title, as text or as parts with their styles, and below it the facts that have a value."""
    from rich.text import Text

    parts = [(title, "bold")] if isinstance(title, str) else title
    out = console()
    out.print(Text.assemble(*((one_line(text), style) for text, style in parts)), soft_wrap=True)
    for name, value in facts:
        if value:
            out.print(Text.assemble((f"{name:<{MARGIN}}", QUIET), one_line(value)), soft_wrap=True)


def _print_block(head: str, text: str, style: str) -> None:
    from rich.text import Text

    out = console()
    out.print()
    out.print(Text(head, style=QUIET))
    for line in text.splitlines():
        # The indentation of code and JSON stays.
        bare = line.lstrip(" ")
        out.print(Text(f"  {line[: len(line) - len(bare)]}{one_line(bare)}", style=style), soft_wrap=True)


def several(name: str, values: Iterable[str]) -> list[Fact]:
    """Return facts that list values under one name, which stands before the first only."""
    return [("" if place else name, value) for place, value in enumerate(values)]


def show_change(
    head: str,
    names: Mapping[str, object],
    was: Mapping[str, Any] | None,
    now: Mapping[str, Any],
    *,
    as_json: bool,
    note: str = "",
) -> None:
    """Print the old and the new values of a record; `names` identifies it in the JSON, `head` in the line."""
    if as_json:
        print_json({"v": 1, **names, "was": was, "is": now})
    else:
        click.echo(f"{head}{change(was, now)}{note}")
