"""The output of the demo: animated rows on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from laneway.cli.shell.formats import bar
from laneway.cli.shell.output import STATES, console

if TYPE_CHECKING:
    from rich.console import RenderableType

FRAME = 0.08  # seconds between two frames
LABEL = 14  # characters
QUIET = "bright_black"


@dataclass
class Row:
    """One animated line: the symbol of a state, a label, a progress bar if there is one, a text."""

    label: str
    state: str = "pending"
    fraction: float | None = None
    text: str = ""


class Screen:
    """Prints chapters and facts; on a terminal it shows the rows of the current chapter."""

    def __init__(self, *, moving: bool, stderr: bool) -> None:
        self._out = console(stderr=stderr)
        # Read once: while rows are shown, rich replaces stdout by an object without this information.
        self._fine = self._out.encoding.lower().startswith("utf")
        self.moving = moving and self._out.is_terminal

    def line(self, text: str = "", look: str = "") -> None:
        """Print a line of text."""
        self._out.print(Text(text, style=look), soft_wrap=not self._out.is_terminal)

    def command(self, text: str, note: str) -> None:
        """Print a command as a user would type it, and its result."""
        self.line(f"  $ {text}", "cyan")
        self.line(f"    {note}", QUIET)

    def chapter(self, number: int, name: str, text: str) -> None:
        """Print a chapter's heading."""
        self._out.print()
        self._out.print(Text.assemble((f"{number}  {name}", "bold"), (f"  {text}", QUIET)))

    def fact(self, text: str, *, holds: bool) -> None:
        """Print a fact, with whether it holds."""
        self.point("succeeded" if holds else "failed", text)

    def point(self, state: str | None, text: str) -> None:
        """Print a text after the symbol of a state; further lines are aligned with the text."""
        if not self._out.is_terminal:
            self.line(f"  {self._symbol(state)} {text}")
            return
        grid = Table.grid(padding=(0, 1, 0, 0))
        for width in (1, 1, None):
            grid.add_column(width=width)
        grid.add_row("", Text(self._symbol(state), style=STATES[state][2] if state else ""), Text(text))
        self._out.print(grid)

    @contextlib.asynccontextmanager
    async def rows(self, rows: list[Row]) -> AsyncIterator[None]:
        """Show the rows during the block, as they change."""
        if not self.moving:
            yield
            return
        with Live(console=self._out, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
            drawing = asyncio.create_task(self._draw(live, rows))
            try:
                yield
                await asyncio.sleep(5 * FRAME)  # so that the last state is seen
            finally:
                drawing.cancel()

    async def _draw(self, live: Live, rows: list[Row]) -> None:
        while True:
            live.update(self._picture(rows), refresh=True)
            await asyncio.sleep(FRAME)

    def _picture(self, rows: list[Row]) -> RenderableType:
        width = max(8, min(32, self._out.width - LABEL - 24))
        lines = []
        for row in rows:
            line = Text("  ", no_wrap=True, overflow="ellipsis")
            line.append(self._symbol(row.state), style=STATES[row.state][2]).append(f" {row.label:<{LABEL}}")
            if row.fraction is not None:
                line.append(bar(row.fraction, width, fine=self._fine), style=STATES[row.state][2])
                line.append(f" {row.fraction:>4.0%}  ")
            lines.append(line.append(row.text, style=QUIET))
        return Group(*lines)

    def _symbol(self, state: str | None) -> str:
        return STATES[state][0 if self._fine else 1] if state else " "
