"""Printing a run's events: lines in a pipe, lines and running text on a terminal, NDJSON for programs."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from laneway.cli.shell import formats
from laneway.cli.shell.output import console, flowing, is_terminal, one_line, print_ndjson, style

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from laneway.core.records.events import Event

KIND_WIDTH = 10
STYLES = {
    "started": "cyan",
    "error": "red",
    "stuck": "red",
    **dict.fromkeys(("retrying", "lapsed", "released", "snoozed", "overdue"), "yellow"),
    **dict.fromkeys(("cancel_requested", "cancel_delivered", "stopped", "trimmed"), "bright_black"),
    **dict.fromkeys(("pause_requested", "paused", "resumed", "question", "called"), "magenta"),
    **dict.fromkeys(("answered", "returned"), "cyan"),
    **dict.fromkeys(("unanswered", "superseded", "steps_changed"), "yellow"),
    **dict.fromkeys(("tool_start", "tool_end"), "blue"),
}


class Printer:
    """Prints a run's events as they come, and remembers how far it came."""

    def __init__(self, accepted_at: datetime, *, as_json: bool, last: int = 0) -> None:
        self._accepted_at, self._as_json = accepted_at, as_json
        self._console: Console | None = None
        self._mid_line = False  # running text stands on the terminal, and its line is not at its end
        self.last = last

    def print(self, event: Event) -> None:
        """Print one event."""
        if self._as_json:
            from laneway.core.records.codec import to_dict

            print_ndjson([to_dict(event)])
        elif not is_terminal():
            click.echo(self._line(event))
        elif event.kind == "delta":
            self._flow(formats.event_text(event))
        else:
            self.end_line()
            self._console = self._console or console()
            self._console.print(self._styled(event), soft_wrap=True)
        sys.stdout.flush()
        self.last = event.seq

    def end_line(self) -> None:
        """Let whatever comes next begin on a line of its own."""
        if self._mid_line:
            click.echo()
            self._mid_line = False

    def _flow(self, text: str) -> None:
        click.echo(flowing(text), nl=False)
        self._mid_line = not text.endswith("\n")

    def _line(self, event: Event) -> str:
        since = f"+{formats.span(max(event.at - self._accepted_at, timedelta()))}"
        return f"{event.seq:>4}  {since:<8} {event.kind:<{KIND_WIDTH}} {one_line(formats.event_text(event))}".rstrip()

    def _styled(self, event: Event) -> Text:
        from rich.text import Text

        text = Text(self._line(event))
        text.stylize("bright_black", 0, 15)
        text.stylize(self._style(event), 15, 15 + len(event.kind))
        return text

    def _style(self, event: Event) -> str:
        data = event.data if isinstance(event.data, dict) else {}
        if event.kind == "done" and "state" in data:
            return style(data["state"])
        return "red" if event.kind == "tool_end" and "error" in data else STYLES.get(event.kind, "")
