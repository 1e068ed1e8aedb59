"""`laneway runs`: show runs, and control them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.runs.answer import answer
from laneway.cli.runs.control import cancel, pause, resume, retry
from laneway.cli.shell.commands import Group
from laneway.cli.shell.completion import run_argument
from laneway.cli.shell.options import filter_options, json_option, limit_option, seconds
from laneway.cli.shell.target import call, read_store, store_option

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler


@click.group(
    "runs", cls=Group, examples=("laneway runs list", "laneway runs show 0197f0c2a1b3", "laneway runs list --help")
)
def runs() -> None:
    """Show runs, and control them: list, show, events, wait, answer, cancel, ...

    ID is the id of a run, or a beginning of it that no other run's id has.
    """


@runs.command(
    "list",
    examples=(
        "laneway runs list",
        "laneway runs list --state failed --task summarize --limit 100",
        "laneway runs list --user ann --before 1200",
        "laneway runs list --state waiting",
        "laneway runs list --state pending --ndjson --store sqlite:///laneway.db",
    ),
)
@filter_options
@limit_option("runs", 20)
@click.option(
    "--before",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Continue a list: runs accepted before number NUMBER.",
)
@click.option("--ndjson", is_flag=True, help="Print one JSON object on each line.")
@json_option("an array of runs")
@store_option
def list_(store: str | None, limit: int, as_json: bool, ndjson: bool, **wanted: Any) -> None:
    """List runs, newest first.

    The note of a waiting run says what it asks. --session also finds the runs that runs of the session have called.
    """
    from laneway.cli.runs.view import RUN

    found = call(read_store(store), lambda app: app.runs(limit=limit + 1, **wanted))
    none = "no runs" + (" that fit" if any(wanted.values()) else "")
    RUN.show_all(
        found, as_json=as_json, ndjson=ndjson, none=none, limit=limit, resume=lambda run: f"--before {run.number}"
    )


@runs.command("show", examples=("laneway runs show 0197f0c2a1b3", "laneway runs show 0197f0c2a1b3 --json"))
@run_argument
@json_option("the run")
@store_option
def show(run_id: str, store: str | None, as_json: bool) -> None:
    """Show everything about a run.

    Its arguments, the messages that were added to it, times, kept steps, result and error. For a waiting run: what it
    asks, until when, and the command that answers. For a run that others belong to: which run called it or left it
    behind, and which runs it called or left behind.
    """
    from laneway.cli.runs.view import RUN_DETAILS, details

    RUN_DETAILS.show(call(read_store(store), lambda app: details(app, run_id, store)), as_json=as_json)


@runs.command(
    "events",
    examples=(
        "laneway runs events 0197f0c2a1b3",
        "laneway runs events 0197f0c2a1b3 --follow",
        "laneway runs events 0197f0c2a1b3 --follow --after 12 --json",
    ),
)
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Show new events, too, until the run has ended.")
@click.option(
    "--after", type=click.IntRange(min=0), default=0, metavar="N", help="Only events with numbers greater than N."
)
@json_option("one event on each line")
@store_option
def events(run_id: str, follow: bool, after: int, store: str | None, as_json: bool) -> int:
    """Show the events of a run.

    They are numbered from 1; the time is counted from the run's acceptance. Ctrl-C ends --follow and prints the command
    that continues.
    """
    from laneway.cli.runs.follow import print_events

    return print_events(read_store(store), run_id, after=after, follow=follow, as_json=as_json, store=store)


@runs.command(
    "wait",
    examples=(
        "laneway runs wait 0197f0c2a1b3",
        "laneway runs wait 0197f0c2a1b3 --timeout 30s",
        "laneway runs wait 0197f0c2a1b3 --json",
    ),
)
@run_argument
@click.option("--timeout", type=seconds, metavar="S", help="Give up after this time (30, 90s, 5m); the run goes on.")
@json_option("the whole run instead of its result")
@store_option
def wait(run_id: str, timeout: float | None, store: str | None, as_json: bool) -> int:
    """Wait for a run to end and print its result as JSON.

    Exits with 0 if the run succeeded, 1 if it failed, was cancelled or dropped, 7 if it did not end in time.
    """
    from laneway.cli.runs.follow import await_end

    async def waiting(app: Scheduler) -> int:
        run = await app.get(run_id)
        return await await_end(app, run.id, timeout=timeout, as_json=as_json, store=store)

    return call(read_store(store), waiting)


for verb in (answer, cancel, pause, resume, retry):
    runs.add_command(verb)
