"""What there is to say of one thing: a name and a value on each line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from laneway.cli.shell.output import console, one_line

if TYPE_CHECKING:
    from rich.console import Console

MARGIN = 12  # where values begin


def show(head: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print what it is called, then the facts that have a value."""
    from rich.text import Text

    out = console()
    out.print(Text(one_line(head), style="bold"), soft_wrap=True)
    lines(out, facts)


def lines(out: Console, facts: Iterable[tuple[str, str]]) -> None:
    """Print the facts that have a value, the values below each other."""
    from rich.text import Text

    for name, value in facts:
        if value:
            out.print(Text.assemble((f"{name:<{MARGIN}}", "bright_black"), one_line(value)), soft_wrap=True)


def several(name: str, values: Iterable[str]) -> list[tuple[str, str]]:
    """Return the facts that list values under one name, which is said once."""
    return [("" if place else name, value) for place, value in enumerate(values)]
