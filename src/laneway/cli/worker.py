"""`laneway worker`: execute runs until told to stop."""

from __future__ import annotations

import click

from laneway.cli.app import app_argument, load
from laneway.cli.commands import Command, concurrency_option, json_option


@click.command(
    "worker",
    cls=Command,
    examples=(
        "laneway worker app:app",
        "laneway worker shop.tasks:scheduler --concurrency 10 --verbose",
        "LANEWAY_APP=app:app laneway worker",
    ),
)
@app_argument
@concurrency_option
@click.option("-v", "--verbose", is_flag=True, help="Say so whenever a run starts or ends.")
@json_option("on stdout when it is ready and when it has stopped, one object on each line,")
def worker(app: str, concurrency: int | None, verbose: bool, as_json: bool) -> int:
    """Execute the runs of APP's tasks in this process until it is stopped.

    Ctrl-C or SIGTERM stops it: it claims nothing more, gives handlers time to end, cancels the rest and gives their
    runs back uncharged, all within 30 seconds. A second signal does so at once. Exits with 0 after a clean stop, with 1
    if handlers in threads had to be left behind.
    """
    from laneway.cli.shift import Shift, log_to_stderr

    scheduler = load(app)
    log_to_stderr(verbose=verbose)
    return Shift(scheduler, app, concurrency, as_json=as_json).work()
