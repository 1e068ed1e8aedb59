"""How the events of a run are shown: lines in a pipe, lines and running text on a terminal, NDJSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from laneway.cli.shell.formats import bar, size, span
from laneway.cli.shell.output import console, flowing, is_terminal, one_line, print_ndjson, printable, style

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from laneway.core.records.events import Event

KIND_WIDTH = 10


class Kind(NamedTuple):
    """How events of one kind are shown: the text beside the kind, and its colour."""

    text: Callable[[Event, Mapping[str, Any]], str]
    style: str = ""


def event_text(event: Event) -> str:
    """Return the text of an event, beside its kind."""
    data = event.data if isinstance(event.data, dict) else {}
    cut = data.get("cut")
    if isinstance(cut, int) and not isinstance(cut, bool):
        return f"{_told(event, data)} [cut: {size(cut)} in all]"
    return _told(event, data)


def _told(event: Event, data: Mapping[str, Any]) -> str:
    try:
        return KINDS[event.kind].text(event, data)
    except (KeyError, TypeError, ValueError):
        # A kind of the user's own, or data in the form of a newer laneway.
        if data.keys() == {"cut", "head"}:
            return printable(data["head"])
        return "" if event.data in (None, {}) else printable(event.data)


def _error(data: Mapping[str, Any]) -> str:
    message = str(data["message"]).strip().partition("\n")[0]
    return f"{data['type']}: {message}" if message else str(data["type"])


def _progress(_: Event, data: Mapping[str, Any]) -> str:
    return f"{bar(data['fraction'])} {data['fraction']:>4.0%}  {data['text']}".rstrip()


def _tool_start(_: Event, data: Mapping[str, Any]) -> str:
    return str(data["name"]) if data["input"] is None else f"{data['name']} {printable(data['input'])}"


def _tool_end(_: Event, data: Mapping[str, Any]) -> str:
    if "error" in data:
        return f"{data['name']} failed after {span(data['seconds'])}: {_error(data['error'])}"
    came = "" if data["output"] is None else f": {printable(data['output'])}"
    return f"{data['name']} in {span(data['seconds'])}{came}"


def _trimmed(_: Event, data: Mapping[str, Any]) -> str:
    return f"streamed text was here, events {data['first']} to {data['last']}"


def _retrying(_: Event, data: Mapping[str, Any]) -> str:
    return f"attempt {data['attempt']} in {span(data['delay'])}, after {_error(data['error'])}"


def _stuck(_: Event, data: Mapping[str, Any]) -> str:
    # The innermost frame comes last: `  File "app.py", line 12, in block`.
    frames = [line.strip() for line in str(data["stack"]).splitlines() if line.lstrip().startswith("File ")]
    where = f", at {frames[-1]}" if frames else ""
    return f"told to stop {span(data['seconds'])} ago, and has not{where}"


def _question(_: Event, data: Mapping[str, Any]) -> str:
    return f"{data['name']}: {printable(data['question'])} (to be answered within {span(data['timeout'])})"


def _steps_changed(_: Event, data: Mapping[str, Any]) -> str:
    return f"step {data['step']} was number {data['was']} in an earlier attempt, and is number {data['now']} now"


def event_style(event: Event) -> str:
    """Return the colour of an event's kind."""
    data = event.data if isinstance(event.data, dict) else {}
    if event.kind == "done" and "state" in data:
        return style(data["state"])
    if event.kind == "tool_end" and "error" in data:
        return "red"
    return KINDS[event.kind].style if event.kind in KINDS else ""


KINDS: Mapping[str, Kind] = {
    "started": Kind(lambda event, data: f"attempt {event.attempt} by worker {data['worker']}", "cyan"),
    "progress": Kind(_progress),
    "log": Kind(lambda _, data: str(data["text"])),
    "delta": Kind(lambda _, data: str(data["text"])),
    "tool_start": Kind(_tool_start, "blue"),
    "tool_end": Kind(_tool_end, "blue"),
    "trimmed": Kind(
        lambda _, data: f"streamed text was here, events {data['first']} to {data['last']}", "bright_black"
    ),
    "retrying": Kind(
        lambda _, data: f"attempt {data['attempt']} in {span(data['delay'])}, after {_error(data['error'])}", "yellow"
    ),
    "released": Kind(lambda *_: "given back by a worker that stopped; nothing is charged", "yellow"),
    "lapsed": Kind(lambda _, data: f"worker {data['worker']} died; crash {data['crashes']}", "yellow"),
    "snoozed": Kind(lambda _, data: f"to be run again in {span(data['delay'])}; nothing is charged", "yellow"),
    "cancel_requested": Kind(lambda *_: "the run is to end", "bright_black"),
    "cancel_delivered": Kind(lambda *_: "the handler was told to stop", "bright_black"),
    "stopped": Kind(lambda *_: "the handler has ended", "bright_black"),
    "pause_requested": Kind(lambda *_: "at its next checkpoint or step", "magenta"),
    "paused": Kind(lambda *_: "until it is resumed", "magenta"),
    "resumed": Kind(lambda *_: "it may go on", "magenta"),
    "merged": Kind(lambda _, data: f"message {data['message']} became part of its arguments"),
    "steered": Kind(lambda _, data: f"message {data['message']} was put into its inbox"),
    "dropped": Kind(lambda _, data: f"it will never start ({data['reason']})"),
    "overdue": Kind(lambda *_: "longer than its timeout; the handler was told to stop", "yellow"),
    "stuck": Kind(_stuck, "red"),
    "question": Kind(_question, "magenta"),
    "answered": Kind(lambda _, data: f"{data['name']}: {printable(data['answer'])}", "cyan"),
    "unanswered": Kind(lambda _, data: f"nobody answered {data['name']} in time", "yellow"),
    "superseded": Kind(lambda _, data: f"message {data['by']} came instead of an answer", "yellow"),
    "called": Kind(lambda _, data: f"{data['name']}: run {data['run_id']}", "magenta"),
    "returned": Kind(lambda _, data: f"{data['name']}: run {data['run_id']} {data['state']}", "cyan"),
    "steps_changed": Kind(_steps_changed, "yellow"),
    "result": Kind(lambda _, data: printable(data["value"])),
    "error": Kind(lambda _, data: _error(data), "red"),
    "done": Kind(lambda _, data: str(data["state"])),
}


class Printer:
    """Prints the events of a run as they come; `last` is the number of the newest printed one."""

    def __init__(self, accepted_at: datetime, *, as_json: bool, last: int = 0) -> None:
        self._accepted_at, self._as_json = accepted_at, as_json
        self._console: Console | None = None
        self._mid_line = False  # streamed text was printed without a line end
        self.last = last

    def print(self, event: Event) -> None:
        """Print one event."""
        if self._as_json:
            from laneway.core.records.codec import to_dict

            print_ndjson([to_dict(event)])
        elif not is_terminal():
            click.echo(self._line(event))
        elif event.kind == "delta":
            self._flow(event_text(event))
        else:
            self.end_line()
            self._console = self._console or console()
            self._console.print(self._styled(event), soft_wrap=True)
        sys.stdout.flush()
        self.last = event.seq

    def end_line(self) -> None:
        """End the line of streamed text, if there is one."""
        if self._mid_line:
            click.echo()
            self._mid_line = False

    def _flow(self, text: str) -> None:
        click.echo(flowing(text), nl=False)
        self._mid_line = not text.endswith("\n")

    def _line(self, event: Event) -> str:
        since = f"+{span(max(event.at - self._accepted_at, timedelta()))}"
        return f"{event.seq:>4}  {since:<8} {event.kind:<{KIND_WIDTH}} {one_line(event_text(event))}".rstrip()

    def _styled(self, event: Event) -> Text:
        from rich.text import Text

        text = Text(self._line(event))
        text.stylize("bright_black", 0, 15)
        text.stylize(event_style(event), 15, 15 + len(event.kind))
        return text
