"""`laneway demo`: in half a minute, with real processes, what laneway promises."""

from __future__ import annotations

from pathlib import Path

import click

from laneway.cli.shell.commands import Command
from laneway.cli.shell.options import json_option


@click.command(
    "demo", cls=Command, examples=("laneway demo", "laneway demo --keep tour", "laneway demo --check --json")
)
@click.option(
    "--check", is_flag=True, help="Be quick and plain: only verify, and exit with 1 if anything is not as promised."
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Put the store and the app into DIR and leave them there.",
)
@json_option("what was verified")
def demo(check: bool, keep: Path | None, as_json: bool) -> int:
    """See it work: 200 runs at once, fair turns, progress, retries, order, a question, a job, and a worker killed.

    Everything happens in a temporary directory, in real worker processes on a SQLite file, and is gone afterwards.
    Every figure is read from the store. Exits with 0 if everything was as promised, else with 1.
    """
    from laneway.cli.demo.runner import perform

    return perform(check=check, keep=keep, as_json=as_json)
