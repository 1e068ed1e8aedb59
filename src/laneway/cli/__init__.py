"""The command line: nouns and verbs, data on stdout, messages on stderr.

Exit codes: 0 fine, 1 the work failed, 2 wrong use, 3 not found, 4 not allowed, 5 conflict, 6 store unreachable,
7 timed out; 130 after Ctrl-C (0 if the command only followed a run).

A command's module is imported when the command is used: `laneway --help` must answer at once, so it reads only the
table below. What a command's module imports at its top, each of its verbs and each press of Tab pays for. So only
light modules and click are imported there; rich, msgspec, the scheduler and the stores are imported by the functions
that use them.
"""

from __future__ import annotations

import click

from laneway.cli.shell.commands import Root

# Name: (where it is defined, what it does), in the order to learn them in.
COMMANDS = {
    "demo": ("demo.command", "Watch it work, and survive a kill -9."),
    "worker": ("workers.worker", "Execute the runs of APP's tasks until it is stopped."),
    "submit": ("runs.submit", "Submit a run of TASK and print its id."),
    "drain": ("workers.drain", "Execute everything of APP that is due, then exit."),
    "runs": ("runs.commands", "Show runs: state, events, result; cancel, pause, retry."),
    "jobs": ("jobs.commands", "Show jobs and when they fire; add, edit, enable, run."),
    "preview": ("jobs.preview", "Show when a schedule fires; needs no store."),
    "why": ("runs.why", "Explain why a run does not start, and what holds it."),
    "lanes": ("admin.lanes", "Show lanes and their load; set limits, pause, resume."),
    "sessions": ("admin.sessions", "Show sessions; set rules, pause, resume, stop."),
    "users": ("admin.users", "Show users; set caps, pause, resume."),
    "tasks": ("admin.tasks", "Show tasks; pause, disable, close breakers."),
    "workers": ("admin.workers", "Show workers."),
    "doctor": ("stores.doctor", "Examine a store, repair its counts, back it up."),
    "migrate": ("stores.migrate", "Upgrade a store to the layout of this laneway."),
    "move": ("stores.move", "Move everything in a store to another store."),
    "completion": ("shell.completion", "Print a completion script for your shell."),
}


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"laneway {version('laneway')}")
        context.exit()


@click.group(
    "laneway",
    cls=Root,
    later=COMMANDS,
    examples=(
        "laneway demo",
        "laneway worker app:app",
        "laneway submit app:app summarize doc=42 --wait",
        "laneway runs list --state failed",
        "laneway why 0197f0c2a1b3",
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


def main() -> None:
    """Run the `laneway` command."""
    cli.main()
