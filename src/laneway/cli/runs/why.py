"""`laneway why`: what a run waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.completion import run_argument
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from laneway.core.records.run import Reason, Run


@click.command("why", cls=Command, examples=("laneway why 0197f0c2a1b3", "laneway why 0197f0c2a1b3 --json"))
@run_argument
@json_option("the gates that are closed for it")
@store_option
def why(run_id: str, store: str | None, as_json: bool) -> None:
    """Say why a run does not start: every gate that is closed for it, who holds it, and when it opens, if known.

    With all of them open, it starts. Of a run that is running or has ended, this is said instead.
    """
    from laneway.cli.runs import reasons
    from laneway.cli.shell.output import print_json

    async def read() -> tuple[Run, list[Reason], dict[str, Run]]:
        async with read_store(store) as scheduler:
            run, found = await reasons.read(scheduler, run_id)
            return run, found, {} if as_json else await reasons.holders(scheduler, found)

    run, found, holders = awaited(read())
    if as_json:
        print_json(reasons.record(run, found))
        return
    for line in reasons.told(run, found, holders, store):
        click.echo(line)
