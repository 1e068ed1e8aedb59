"""`laneway worker`: execute runs until told to stop."""

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
    "--processes", type=click.IntRange(1, 256), metavar="N", help="Work in N processes, and restart those that crash."
)
@click.option(
    "--max-tasks", type=click.IntRange(min=1), metavar="N", help="End, or be replaced, after N attempts in a process."
)
@click.option("--exclusive", is_flag=True, help="Refuse to start beside another one with --exclusive on this store.")
@click.option("--lifeline", type=int, hidden=True, help="What ties it to its parent.")
@click.option("-v", "--verbose", is_flag=True, help="Say so whenever a run starts or ends.")
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

    Ctrl-C or SIGTERM stops it: it claims nothing more, gives handlers time to end, cancels the rest and gives their
    runs back uncharged, all within 30 seconds. A second signal does so at once. Exits with 0 after a clean stop, with 1
    if handlers had to be left behind, with 5 if --exclusive is refused, or if the store has moved (laneway move): then
    it lets what it executes end, and says where the store is now.

    A handler that was told to stop and does not is stuck, and only the end of this process frees its run: the worker
    takes no new work, lets the others end for up to `stuck_drain` (10 minutes), and exits with 1, so that its
    supervisor starts another.

    With --processes the limit of --concurrency is that of each process, signals reach all of them, and the exit code is
    1 if one of them did not stop cleanly.
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
    """Return this command again, for one process."""
    words = [sys.executable, "-m", "laneway", "worker", app]
    for name, value in options.items():
        if value:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return words
