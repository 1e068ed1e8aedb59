"""The command line: nouns and verbs, data on stdout, talk on stderr.

Exit codes: 0 fine, 1 the work failed, 2 wrong use, 3 not found, 4 not allowed, 5 conflict, 6 store unreachable,
7 timed out; 130 after Ctrl-C.

Everything imported at the top of these files is paid for by `laneway --help`, which must answer at once. So click is;
rich, the scheduler and the stores are imported inside the commands that use them.
"""

from __future__ import annotations

import click

from laneway.cli.commands import Root
from laneway.cli.completion import completion
from laneway.cli.demo import demo
from laneway.cli.doctor import doctor
from laneway.cli.drain import drain
from laneway.cli.migrate import migrate
from laneway.cli.runs import runs
from laneway.cli.submit import submit
from laneway.cli.tasks import tasks
from laneway.cli.worker import worker
from laneway.cli.workers import workers


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"laneway {version('laneway')}")
        context.exit()


@click.group(
    "laneway",
    cls=Root,
    examples=(
        "laneway demo",
        "laneway worker app:app",
        "laneway submit app:app summarize doc=42 --wait",
        "laneway runs list --state failed",
    ),
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
def cli() -> None:
    """Accept work now, run it later, lose nothing.

    APP names your scheduler as module:attribute, such as app:app; LANEWAY_APP is its default. Commands that only read
    take the store's address instead: --store, else LANEWAY_STORE, else sqlite:///laneway.db.
    """


for command in (demo, worker, submit, drain, runs, tasks, workers, doctor, migrate, completion):
    cli.add_command(command)


def main() -> None:
    """Be the `laneway` command."""
    cli.main()
