"""`laneway drain`: run everything due, then return."""

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

# What was done by which move, in the order it is told
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

    Says how many attempts succeeded, failed and are to be tried again; what is pending still: runs due later, or of
    tasks that APP does not know; and how many wait for an answer, or for runs that they called.

    Exits with 0 whatever the runs ended in; `laneway runs list --state failed` tells.
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
