"""The command line: nouns and verbs, data on stdout, talk on stderr.

Exit codes: 0 fine, 1 the work failed, 2 wrong use, 3 not found, 4 not allowed, 5 conflict, 6 store unreachable,
7 timed out; 130 after Ctrl-C (0 for what is only followed).

A command is imported when it is asked for: `laneway --help` must answer at once, and knows of each only what stands
here. What is imported at the top of a command's file is paid for by each of its verbs, and by whoever presses Tab. So
click is; rich, the scheduler and the stores are imported inside the verbs that use them.
"""

from __future__ import annotations

import click

from laneway.cli.shell.commands import Root

# Name: (where it is defined, what it does), in the order to learn them in.
COMMANDS = {
    "demo": ("demo.command", "See it work, and survive a kill -9."),
    "worker": ("workers.worker", "Execute the runs of APP's tasks until it is stopped."),
    "submit": ("runs.submit", "Submit a run of TASK and print its id."),
    "drain": ("workers.drain", "Execute everything of APP that is due, then exit."),
    "runs": ("runs.commands", "See what became of runs, and control them."),
    "jobs": ("jobs.commands", "See what fires when; add, edit, enable, run jobs."),
    "preview": ("jobs.preview", "See when a schedule fires, without any store."),
    "why": ("runs.why", "Say why a run does not start, and who holds it."),
    "lanes": ("admin.lanes", "See how full lanes are; set limits, pause, resume."),
    "sessions": ("admin.sessions", "See what goes on in sessions; set rules, pause, stop."),
    "users": ("admin.users", "See how users stand; set caps, pause, resume."),
    "tasks": ("admin.tasks", "See what can be executed; pause, disable."),
    "workers": ("admin.workers", "See who executes runs."),
    "doctor": ("stores.doctor", "Examine a store, repair its counts, back it up."),
    "migrate": ("stores.migrate", "Move a store to the layout that this laneway uses."),
    "move": ("stores.move", "Move all that a store has to another store."),
    "completion": ("shell.completion", "Print a script that makes the shell complete laneway."),
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
    """Be the `laneway` command."""
    cli.main()
