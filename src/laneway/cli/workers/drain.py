"""`laneway drain`: execute everything that is due, then exit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from laneway.cli.shell.commands import Command
from laneway.cli.shell.errors import FINE, say
from laneway.cli.shell.options import concurrency_option, json_option
from laneway.cli.shell.target import app_argument, call, load

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler

# The words for each move, in the order of the output
DONE = {
    "succeed": "succeeded",
    "fail": "failed",
    "retry": "to be tried again",
    "lapse": "taken over from a worker that died",
    "release": "given back",
    "snooze": "to be run later",
    "pause": "paused",
    "ask": "asked something",
    "call": "called other runs",
    "cancel": "cancelled",
}


@click.command("drain", cls=Command, examples=("laneway drain app:app", "laneway drain app:app --concurrency 4 --json"))
@app_argument
@concurrency_option
@json_option("what was done and what is left")
def drain(app: str, concurrency: int | None, as_json: bool) -> int:
    """Execute everything of APP that is due, then exit.

    Prints how many attempts succeeded, failed and will be tried again; how many runs are still pending, because they
    are due later or APP does not know their tasks; and how many wait for an answer or for a run that they called.

    Exits with 0 even if runs failed: see laneway runs list --state failed.
    """
    from laneway.cli.shell.output import print_json
    from laneway.cli.workers.process import log_to_stderr

    log_to_stderr(verbose=False)

    async def drained(scheduler: Scheduler) -> tuple[Mapping[str, int], Mapping[str, int]]:
        moves = await scheduler.drain(concurrency=concurrency)
        return moves, (await scheduler.depths()).runs

    moves, left = call(load(app), drained)
    pending, waiting = left.get("pending", 0), left.get("waiting", 0)
    if as_json:
        print_json({"v": 1, "moves": moves, "pending": pending, "waiting": waiting})
    told = [f"{moves[move]} {words}" for move, words in DONE.items() if moves.get(move)]
    say(", ".join(told) or "nothing was due")
    if pending:
        say(f"{pending} pending still: due later, or of tasks that {app} does not know")
    if waiting:
        say(f"{waiting} waiting; see for what: laneway runs list --state waiting")
    return FINE
