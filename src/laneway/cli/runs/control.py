"""`laneway runs cancel`, `pause`, `resume` and `retry`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click

from laneway.cli.shell.batch_results import act_on_each
from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.completion import runs_argument
from laneway.cli.shell.errors import Problem, say
from laneway.cli.shell.formats import standing
from laneway.cli.shell.options import filter_options, json_option, seconds
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from laneway.core.records.run import Receipt, Run
    from laneway.scheduler import Scheduler


@click.command(
    "cancel",
    cls=Command,
    examples=(
        "laneway runs cancel 0197f0c2a1b3",
        "laneway runs cancel 0197f0c2a1b3 --wait --timeout 30s",
        "laneway runs cancel --state pending --task summarize --dry-run",
        "laneway runs cancel --user ann --yes",
    ),
)
@runs_argument(required=False)
@filter_options
@click.option("--abandon", is_flag=True, help="Do not wait for the handler: end the run and free its slots now.")
@click.option("--dry-run", is_flag=True, help="Count what would be cancelled, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation before cancelling by filters.")
@click.option("--wait", is_flag=True, help="Wait until the handlers have really stopped.")
@click.option("--timeout", type=seconds, metavar="S", help="Wait at most this time (30, 90s, 5m); the cancel stands.")
@json_option("the runs, or the count,")
@store_option
def cancel(
    ids: tuple[str, ...],
    abandon: bool,
    dry_run: bool,
    yes: bool,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    store: str | None,
    **given: str | None,
) -> int:
    """Cancel runs: by ID, or all that match the filters.

    A run that is not running ends at once, even if no worker is up. A running one ends when its handler has stopped;
    the output says how far that is: requested, delivered, stopped.

    --abandon ends the run while its handler goes on; the store refuses what that handler still writes. Filters ask for
    confirmation at a terminal.

    Exits with 3 if there is no such run, 5 if it has ended in another state, 7 if --wait ran out of time.
    """
    from laneway.cli.runs import cancel

    wanted = {name: value for name, value in given.items() if value is not None}
    _check(ids, wanted, abandon=abandon, dry_run=dry_run, wait=wait, timeout=timeout)
    patience = cancel.Patience(wait, timeout)
    if wanted:
        many = cancel.Many(wanted, ask=not yes, dry_run=dry_run, patience=patience, as_json=as_json)
        return awaited(many.cancel(read_store(store)))
    return awaited(cancel.cancel(read_store(store), ids, abandon=abandon, patience=patience, as_json=as_json))


def _check(
    ids: tuple[str, ...], wanted: dict[str, str], *, abandon: bool, dry_run: bool, wait: bool, timeout: float | None
) -> None:
    if ids and wanted:
        raise Problem(f"give ids or --{next(iter(wanted))}, not both")
    if not ids and not wanted:
        raise Problem("give ids, or filters such as --state pending --task summarize")
    if abandon and wanted:
        raise Problem("--abandon needs ids: the handler of each such run goes on, so name each one")
    if dry_run and ids:
        raise Problem("--dry-run counts the runs that match filters; for one run: laneway runs show ID")
    if timeout is not None and not wait:
        raise Problem("--timeout needs --wait")


@click.command("pause", cls=Command, examples=("laneway runs pause 0197f0c2a1b3",))
@runs_argument()
@json_option("the runs")
@store_option
def pause(ids: tuple[str, ...], as_json: bool, store: str | None) -> int:
    """Pause runs: at once, or at the next checkpoint of a handler.

    A pending run is paused at once, a running one when its handler reaches a checkpoint or a step. A handler without
    them goes on; its run is paused before the next attempt, or after the answer if it asks. A waiting run cannot be
    paused.
    """
    return _change(store, ids, lambda app, run_id: app.pause(run_id), as_json=as_json)


@click.command("resume", cls=Command, examples=("laneway runs resume 0197f0c2a1b3",))
@runs_argument()
@json_option("the runs")
@store_option
def resume(ids: tuple[str, ...], as_json: bool, store: str | None) -> int:
    """Resume paused runs.

    Their handlers continue from what the last checkpoint saved.
    """
    return _change(store, ids, lambda app, run_id: app.resume(run_id), as_json=as_json)


def _change(
    store: str | None, ids: Iterable[str], action: Callable[[Scheduler, str], Awaitable[Run]], *, as_json: bool
) -> int:
    from laneway.core.records.codec import to_dict

    def line(run: Run) -> str:
        return f"{run.id}  {standing(run)}"

    return act_on_each(read_store(store), ids, action, line=line, record=to_dict, as_json=as_json)


@click.command("retry", cls=Command, examples=("laneway runs retry 0197f0c2a1b3",))
@runs_argument()
@json_option("the receipts")
@store_option
def retry(ids: tuple[str, ...], as_json: bool, store: str | None) -> int:
    """Submit ended runs again, and print the new ids.

    A new run has the arguments, lane, user, session and priority of the old one, begins with attempt 1, and names the
    run that it retries.
    """
    from laneway.core.records.codec import to_dict

    async def again(app: Scheduler, given: str) -> tuple[Run, Receipt]:
        run = await app.get(given)
        receipt = await app.retry(run)
        say(f"{receipt.run_id} retries {run.id}, a run of {run.task} that {_ended(run)}")
        return run, receipt

    return act_on_each(
        read_store(store),
        ids,
        again,
        line=lambda result: result[1].run_id,
        record=lambda result: {**to_dict(result[1]), "retry_of": result[0].id},
        as_json=as_json,
    )


def _ended(run: Run) -> str:
    return f"was {run.state.value}" if run.state in ("cancelled", "dropped") else run.state.value
