"""`laneway worker`: execute runs until it is stopped."""

from __future__ import annotations

import contextlib
import sys

import click

from laneway.cli.shell.commands import Command
from laneway.cli.shell.errors import Problem
from laneway.cli.shell.options import concurrency_option, json_option
from laneway.cli.shell.target import MEMORY, app_argument, load


@click.command(
    "worker",
    cls=Command,
    examples=(
        "laneway worker app:app",
        "laneway worker shop.tasks:scheduler --concurrency 10 --verbose",
        "laneway worker app:app --processes 4 --max-tasks 10000",
        "LANEWAY_APP=app:app laneway worker --exclusive",
    ),
)
@app_argument
@concurrency_option
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Run N worker processes, and restart those that crash.",
)
@click.option(
    "--max-tasks",
    type=click.IntRange(min=1),
    metavar="N",
    help="End a process after N attempts; with --processes it is replaced.",
)
@click.option("--exclusive", is_flag=True, help="Refuse to start if another worker with --exclusive uses this store.")
@click.option("--lifeline", type=int, hidden=True, help="The descriptor of the socket to the parent.")
@click.option("-v", "--verbose", is_flag=True, help="Log each start and end of a run.")
@json_option("on stdout when it is ready and when it has stopped, one object on each line,")
def worker(
    app: str,
    concurrency: int | None,
    processes: int | None,
    max_tasks: int | None,
    exclusive: bool,
    lifeline: int | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Execute the runs of APP's tasks until it is stopped.

    Ctrl-C or SIGTERM stops it: it claims no more runs, gives handlers time to end, then cancels the others and gives
    their runs back without charging an attempt, all within 30 seconds. A second signal does so at once. Exits with 0
    after a clean stop, with 1 if handlers had to be left behind, with 5 if --exclusive is refused or the store has
    moved (laneway move); in that case it lets running handlers end and prints the new address.

    A handler that was told to stop and does not stop is stuck: only the end of this process frees its run. The worker
    then claims no more runs, lets the others end for up to `stuck_drain` (10 minutes), and exits with 1, so that its
    supervisor starts another one.

    With --processes, --concurrency is the limit of each process, signals reach all processes, and the exit code is 1 if
    one of them did not stop cleanly.
    """
    from laneway.cli.workers.exclusive import held
    from laneway.cli.workers.lifeline import Lifeline
    from laneway.cli.workers.process import WorkerProcess, introduce, log_to_stderr

    line = None if lifeline is None else Lifeline(lifeline)
    scheduler = load(app)
    log_to_stderr(verbose=verbose)
    with held(scheduler.url) if exclusive else contextlib.nullcontext(()) as inherited:
        if processes is None:
            return WorkerProcess(scheduler, app, concurrency, as_json=as_json, attempts=max_tasks, lifeline=line).work()
        if scheduler.url.startswith(MEMORY):
            raise Problem("memory:// lives inside one process; --processes needs a store that others can see")
        from laneway.cli.workers.fleet import Fleet

        introduce(scheduler, app, concurrency or scheduler.settings.concurrency, processes)
        command = _command(app, concurrency=concurrency, max_tasks=max_tasks, verbose=verbose, json=as_json)
        return Fleet(command, processes, inherited=inherited, as_json=as_json).run()


def _command(app: str, **options: int | None) -> list[str]:
    """Return this command line again, for one process."""
    words = [sys.executable, "-m", "laneway", "worker", app]
    for name, value in options.items():
        if value:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return words
