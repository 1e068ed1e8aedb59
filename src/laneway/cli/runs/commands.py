"""`laneway runs`: what became of them, and what can be asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from laneway.cli.runs.answer import answer
from laneway.cli.runs.control import cancel, pause, resume, retry
from laneway.cli.shell.commands import Command, Group, awaited
from laneway.cli.shell.completion import run_argument
from laneway.cli.shell.errors import say
from laneway.cli.shell.options import filter_options, json_option, seconds
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from laneway.cli.runs.relatives import Kin
    from laneway.cli.runs.stages import Stages
    from laneway.core.records.run import Message, Run


@click.group(
    "runs", cls=Group, examples=("laneway runs list", "laneway runs show 0197f0c2a1b3", "laneway runs list --help")
)
def runs() -> None:
    """See what became of runs, and control them: list, show, events, wait, answer, cancel, ...

    A run is named by its id or by a beginning of it that no other run's id has.
    """


@runs.command(
    "list",
    cls=Command,
    examples=(
        "laneway runs list",
        "laneway runs list --state failed --task summarize --limit 100",
        "laneway runs list --user ann --before 1200",
        "laneway runs list --state waiting",
        "laneway runs list --state pending --ndjson --store sqlite:///laneway.db",
    ),
)
@filter_options
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, metavar="N", help="At most N runs."
)
@click.option(
    "--before",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Go on from here: runs accepted before number NUMBER.",
)
@click.option("--ndjson", is_flag=True, help="Print one JSON object on each line.")
@json_option("an array of runs")
@store_option
def list_(store: str | None, limit: int, as_json: bool, ndjson: bool, **wanted: Any) -> None:
    """List runs, newest first. Of one that waits, the note says what it asks.

    --session also finds the runs that others of the session have called.
    """
    from laneway.cli.runs import run_table
    from laneway.cli.shell.output import print_json, print_ndjson
    from laneway.core.records.codec import to_dict

    found, more = awaited(_listed(store, limit, wanted))
    if ndjson:
        print_ndjson(map(to_dict, found))
    elif as_json:
        print_json([to_dict(run) for run in found])
    elif found:
        run_table.show(found)
    else:
        say("no runs" + (" that fit" if any(wanted.values()) else ""))
    if more:
        say(f"there are more; go on with --before {found[-1].number}")


async def _listed(store: str | None, limit: int, wanted: dict[str, Any]) -> tuple[list[Run], bool]:
    async with read_store(store) as scheduler:
        found = await scheduler.runs(limit=limit + 1, **wanted)
        return found[:limit], len(found) > limit


@runs.command("show", cls=Command, examples=("laneway runs show 0197f0c2a1b3", "laneway runs show 0197f0c2a1b3 --json"))
@run_argument
@json_option("the run")
@store_option
def show(run_id: str, store: str | None, as_json: bool) -> None:
    """Show everything about a run: arguments, messages it took, times, result, error.

    Of one that waits, what it asks, until when, and the command that answers; of one that is tied to others, who called
    it or left it behind, and what it called or left behind itself; and the names of the steps it has kept.
    """
    from laneway.cli.runs import relatives, show, stages
    from laneway.cli.shell.output import print_json
    from laneway.core.records.codec import to_dict

    async def read() -> tuple[Run, Stages, list[Message], Kin]:
        async with read_store(store) as scheduler:
            run = await scheduler.get(run_id)
            taken = await show.messages_of(scheduler, run)
            return run, await stages.read(scheduler, run), taken, await relatives.read(scheduler, run)

    run, reached, taken, kin = awaited(read())
    if as_json:
        taken_ones = [show.message_record(one) for one in taken]
        print_json({**to_dict(run), "taken": taken_ones, **kin.record(run)})
    else:
        show.show(run, reached, taken, kin, store)


@runs.command(
    "events",
    cls=Command,
    examples=(
        "laneway runs events 0197f0c2a1b3",
        "laneway runs events 0197f0c2a1b3 --follow",
        "laneway runs events 0197f0c2a1b3 --follow --after 12 --json",
    ),
)
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on with new events until the run is done.")
@click.option(
    "--after", type=click.IntRange(min=0), default=0, metavar="N", help="Only events with numbers greater than N."
)
@json_option("one event on each line")
@store_option
def events(run_id: str, follow: bool, after: int, store: str | None, as_json: bool) -> int:
    """Show a run's events, numbered from 1, with the time since it was accepted.

    Ctrl-C ends --follow and says how to go on from there.
    """
    from laneway.cli.runs.follow import print_events

    return print_events(read_store(store), run_id, after=after, follow=follow, as_json=as_json, store=store)


@runs.command(
    "wait",
    cls=Command,
    examples=(
        "laneway runs wait 0197f0c2a1b3",
        "laneway runs wait 0197f0c2a1b3 --timeout 30s",
        "laneway runs wait 0197f0c2a1b3 --json",
    ),
)
@run_argument
@click.option("--timeout", type=seconds, metavar="S", help="Give up after so long (30, 90s, 5m); the run goes on.")
@json_option("the whole run instead of its result")
@store_option
def wait(run_id: str, timeout: float | None, store: str | None, as_json: bool) -> int:
    """Wait for a run to end and print its result as JSON.

    Exits with 0 if it succeeded, 1 if it failed, was cancelled or was dropped, 7 if it did not end in time.
    """
    from laneway.cli.runs.follow import await_end

    async def waiting() -> int:
        async with read_store(store) as scheduler:
            run = await scheduler.get(run_id)
            return await await_end(scheduler, run.id, timeout=timeout, as_json=as_json, store=store)

    return awaited(waiting())


for verb in (answer, cancel, pause, resume, retry):
    runs.add_command(verb)
