"""`laneway demo`: laneway at work, with real processes, in half a minute."""

from __future__ import annotations

from pathlib import Path

import click

from laneway.cli.shell.commands import Command
from laneway.cli.shell.options import json_option


@click.command(
    "demo", cls=Command, examples=("laneway demo", "laneway demo --keep tour", "laneway demo --check --json")
)
@click.option(
    "--check", is_flag=True, help="Quick and without animation: only verify, and exit with 1 if a fact does not hold."
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Put the store and the app into DIR, and keep them.",
)
@json_option("what was verified")
def demo(check: bool, keep: Path | None, as_json: bool) -> int:
    """Watch laneway work, with real worker processes on a SQLite file.

    200 runs at once, fair turns, progress, retries, order in a session, a question, a job, and a worker that is killed.
    Everything is in a temporary directory, which is deleted afterwards. Every figure is read from the store. Exits with
    0 if every fact holds, else with 1.
    """
    from laneway.cli.demo.runner import perform

    return perform(check=check, keep=keep, as_json=as_json)
