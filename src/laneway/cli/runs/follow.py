"""Follow a run: its events as lines, its progress as a bar, its end as an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from laneway.cli.runs import questions
from laneway.cli.runs.events import Printer, event_style, event_text
from laneway.cli.shell import formats
from laneway.cli.shell.errors import FAILED, FINE, INTERRUPTED, TIMED_OUT, Problem, say
from laneway.cli.shell.hints import store_words
from laneway.cli.shell.output import console, is_terminal, one_line, print_json, style, symbol

if TYPE_CHECKING:
    from laneway.core.records.events import Event
    from laneway.core.records.run import Run
    from laneway.scheduler import Scheduler


def print_events(
    scheduler: Scheduler, run_id: str, *, after: int, follow: bool, as_json: bool, store: str | None
) -> int:
    """Print the events of a run; with `follow`, until it has ended, or until Ctrl-C, then print how to resume."""
    printer: Printer | None = None

    async def printing() -> None:
        nonlocal printer, run_id
        async with scheduler:
            run = await scheduler.get(run_id)
            run_id = run.id
            printer = Printer(run.accepted_at, as_json=as_json, last=after)
            async for event in scheduler.events(run.id, after) if follow else stored(scheduler, run.id, after):
                printer.print(event)
            printer.end_line()

    try:
        asyncio.run(printing())
    except KeyboardInterrupt:
        if not follow:
            return INTERRUPTED
        if printer is not None:
            resume = f"laneway runs events {run_id} --follow --after {printer.last}"
            say(f"\nstopped after event {printer.last}; go on with: {resume}{store_words(store)}")
        # Ctrl-C is the normal end of following a run that goes on.
    return FINE


async def stored(scheduler: Scheduler, run_id: str, after: int = 0) -> AsyncIterator[Event]:
    """Yield the stored events, in pages."""
    store = await scheduler.open()
    while page := await store.events(run_id, after=after):
        for event in page:
            yield event
        after = page[-1].seq


async def await_end(
    scheduler: Scheduler, run_id: str, *, timeout: float | None, as_json: bool, store: str | None
) -> int:
    """Wait for the end of a run, with its progress on a terminal; print the result and return the exit code."""
    if not (await scheduler.get(run_id)).ended and not await (await scheduler.open()).workers():
        say("no worker is running yet; start one with: laneway worker APP")
    watching = asyncio.create_task(_watch(scheduler, run_id, store)) if is_terminal(sys.stderr) else None
    try:
        run = await scheduler.wait(run_id, timeout)
        if watching is not None:
            await watching  # it returns after the last event of the run
    except TimeoutError:
        raise Problem(
            f"run {run_id} has not ended after {formats.spoken(timeout or 0)}",
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
    """Print the result of a run on stdout, or on stderr why there is none."""
    if as_json:
        from laneway.core.records.codec import to_dict

        print_json(to_dict(run))
    elif run.state == "succeeded":
        print_json(run.result)
    if run.state == "succeeded":
        return FINE
    why = formats.failure(run)
    detail = f" ({run.reason})" if run.reason and run.reason not in ("error", why) else ""
    say(f"laneway: run {run.id} {run.state.value}{detail}" + (f": {one_line(why)}" if why else ""))
    return FAILED


async def _watch(scheduler: Scheduler, run_id: str, store: str | None) -> None:
    """Show the progress in one changing line on stderr until the run ends; print its questions above that line."""
    from rich.live import Live
    from rich.text import Text

    run = await scheduler.get(run_id)

    def line(said: str, look: str) -> Text:
        parts = (one_line(run.task), "bold"), "  ", (one_line(said), look)
        return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")

    # All that is printed meanwhile goes through this console, so rich need not redirect stdout and stderr.
    with Live(console=console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False) as live:
        live.update(line(f"{symbol(run.state)} {run.state.value}", style(run.state)))
        async for event in scheduler.events(run_id):
            said = event_text(event)
            if event.kind not in ("result", "done"):
                shown = said if event.kind in ("progress", "delta") else f"{event.kind} {said}"
                live.update(line(shown, event_style(event)))
            if event.kind == "question":  # it may be answered by now; the next event says so
                said = questions.how_to_answer(await scheduler.get(run_id), event, store)
                live.console.print(Text(said), soft_wrap=True)
