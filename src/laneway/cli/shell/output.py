"""Writing to terminals and pipes: a terminal gets colours and short lines, a pipe gets plain and complete text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

# state: symbol, its ASCII form, style
STATES: Mapping[str, tuple[str, str, str]] = {
    "pending": ("○", ".", "yellow"),
    "running": ("▶", ">", "cyan"),
    "paused": ("‖", "=", "magenta"),
    "waiting": ("◇", "?", "magenta"),
    "succeeded": ("✓", "+", "green"),
    "failed": ("✗", "x", "red"),
    "cancelled": ("⊘", "/", "bright_black"),
    "dropped": ("↓", "v", "bright_black"),
}


def is_terminal(stream: TextIO | None = None) -> bool:
    """Tell whether stdout, or the stream given, is a terminal."""
    return (stream or sys.stdout).isatty()


def speaks_unicode(stream: TextIO | None = None) -> bool:
    """Tell whether stdout, or the stream given, can show more than ASCII."""
    return ((stream or sys.stdout).encoding or "").lower().startswith("utf")


def symbol(state: str) -> str:
    """Return the symbol of a state, in a form that stdout can show."""
    fine, plain, _ = STATES[state]
    return fine if speaks_unicode() else plain


def style(state: str) -> str:
    """Return the colour of a state; without colours its symbol says the same."""
    return STATES[state][2]


def console(*, stderr: bool = False) -> Console:
    """Return a rich console on stdout or stderr that interprets nothing in the text; it honours NO_COLOR."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def to_json(value: object, *, indent: bool) -> str:
    """Return JSON text, on one line or on many."""
    import msgspec

    text = msgspec.json.encode(value)
    return (msgspec.json.format(text, indent=2) if indent else text).decode()


def print_json(value: object) -> None:
    """Print one JSON value: indented on a terminal, on one line in a pipe."""
    click.echo(to_json(value, indent=is_terminal()))


def print_ndjson(values: Iterable[object]) -> None:
    """Print JSON values, one on each line."""
    for value in values:
        click.echo(to_json(value, indent=False))


def one_line(text: str) -> str:
    """Return text as one line without control characters: the texts of a run come from anywhere."""
    if text.isprintable():
        return text
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def flowing(text: str) -> str:
    """Return text without control characters other than line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def printable(value: Any) -> str:
    """Return a value as one line: text as it is, the rest as JSON."""
    return one_line(value) if isinstance(value, str) else to_json(value, indent=False)
