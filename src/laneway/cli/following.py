"""Following a run while it goes: its events as lines, its progress as a bar, its end as an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from laneway.cli import phrases
from laneway.cli.errors import FAILED, FINE, INTERRUPTED, TIMED_OUT, Problem, say
from laneway.cli.output import console, is_terminal, one_line, print_json, print_ndjson, style, symbol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from laneway.core.events import Event
    from laneway.core.run import Run
    from laneway.scheduler import Scheduler

KIND_WIDTH = 9
STYLES = {
    "started": "cyan",
    "error": "red",
    "stuck": "red",
    **dict.fromkeys(("retrying", "lapsed", "released", "snoozed", "overdue"), "yellow"),
    **dict.fromkeys(("cancel_requested", "cancel_delivered", "stopped"), "bright_black"),
    **dict.fromkeys(("pause_requested", "paused", "resumed"), "magenta"),
}


class Printer:
    """Prints a run's events as lines, or as NDJSON, and remembers how far it came."""

    def __init__(self, accepted_at: datetime, *, as_json: bool, stderr: bool = False) -> None:
        self._accepted_at, self._as_json, self._stderr = accepted_at, as_json, stderr
        self._console: Console | None = None
        self.last = 0

    def print(self, event: Event) -> None:
        """Print one event."""
        if self._as_json:
            from laneway.core.codec import to_dict

            print_ndjson([to_dict(event)])
        elif is_terminal(sys.stderr if self._stderr else sys.stdout):
            self._console = self._console or console(stderr=self._stderr)
            self._console.print(self._styled(event), soft_wrap=True)
        else:
            click.echo(self._line(event), err=self._stderr)
        sys.stdout.flush()
        self.last = event.seq

    def _line(self, event: Event) -> str:
        since = f"+{phrases.span(max(event.at - self._accepted_at, timedelta()))}"
        return f"{event.seq:>4}  {since:<8} {event.kind:<{KIND_WIDTH}} {one_line(phrases.event_text(event))}".rstrip()

    def _styled(self, event: Event) -> Text:
        from rich.text import Text

        text = Text(self._line(event))
        text.stylize("bright_black", 0, 15)
        ending = event.data.get("state") if event.kind == "done" and isinstance(event.data, dict) else None
        text.stylize(style(ending) if ending else STYLES.get(event.kind, ""), 15, 15 + len(event.kind))
        return text


def print_events(
    scheduler: Scheduler, run_id: str, *, after: int, follow: bool, as_json: bool, store: str | None
) -> int:
    """Print a run's events; with `follow`, go on until it is done or Ctrl-C, and then say how to resume."""
    printer: Printer | None = None

    async def printing() -> None:
        nonlocal printer, run_id
        async with scheduler:
            run = await scheduler.get(run_id)
            run_id = run.id
            printer = Printer(run.accepted_at, as_json=as_json)
            printer.last = after
            async for event in scheduler.events(run.id, after) if follow else stored(scheduler, run.id, after):
                printer.print(event)

    try:
        asyncio.run(printing())
    except KeyboardInterrupt:
        if printer is not None:
            resume = f"laneway runs events {run_id} --follow --after {printer.last}"
            say(f"\nstopped after event {printer.last}; go on with: {resume}{store_words(store)}")
        return INTERRUPTED
    return FINE


async def stored(scheduler: Scheduler, run_id: str, after: int = 0) -> AsyncIterator[Event]:
    """Yield the events there are."""
    store = await scheduler.open()
    while page := await store.events(run_id, after=after):
        for event in page:
            yield event
        after = page[-1].seq


async def await_end(
    scheduler: Scheduler, run_id: str, *, timeout: float | None, as_json: bool, store: str | None
) -> int:
    """Wait for the run to end, showing its progress on a terminal; print its result and return the exit code."""
    if not (await scheduler.get(run_id)).ended and not await (await scheduler.open()).workers():
        say("no worker is running yet; start one with: laneway worker APP")
    watching = asyncio.create_task(_watch(scheduler, run_id)) if is_terminal(sys.stderr) else None
    try:
        run = await scheduler.wait(run_id, timeout)
        if watching is not None:
            await watching  # it ends with the run's last event
    except TimeoutError:
        raise Problem(
            f"run {run_id} has not ended after {phrases.spoken(timeout or 0)}",
            hint=f"it goes on; wait again with: laneway runs wait {run_id}{store_words(store)}",
            code=TIMED_OUT,
        ) from None
    finally:
        if watching is not None:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    return tell_end(run, as_json=as_json)


def tell_end(run: Run, *, as_json: bool) -> int:
    """Print what the run ended in: its result on stdout, or why there is none on stderr."""
    if as_json:
        from laneway.core.codec import to_dict

        print_json(to_dict(run))
    elif run.state == "succeeded":
        print_json(run.result)
    if run.state == "succeeded":
        return FINE
    why = phrases.failure(run)
    detail = f" ({run.reason})" if run.reason and run.reason not in ("error", why) else ""
    say(f"laneway: run {run.id} {run.state.value}{detail}" + (f": {one_line(why)}" if why else ""))
    return FAILED


async def _watch(scheduler: Scheduler, run_id: str) -> None:
    """Show one line on stderr that changes as the run goes, and is gone when it ends."""
    from rich.live import Live
    from rich.text import Text

    run = await scheduler.get(run_id)

    def line(said: str, look: str) -> Text:
        parts = (one_line(run.task), "bold"), "  ", (one_line(said), look)
        return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")

    # Nothing of ours is printed while it is shown, so rich need not take hold of stdout and stderr.
    with Live(console=console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False) as live:
        live.update(line(f"{symbol(run.state)} {run.state.value}", style(run.state)))
        async for event in scheduler.events(run_id):
            said = phrases.event_text(event)
            if event.kind not in ("result", "done"):
                shown = said if event.kind == "progress" else f"{event.kind} {said}"
                live.update(line(shown, STYLES.get(event.kind, "")))


def store_words(store: str | None) -> str:
    """Return the option that names the store again, for a command to paste."""
    return f" --store {store}" if store else ""
