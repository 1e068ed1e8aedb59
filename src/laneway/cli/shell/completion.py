"""`laneway completion`: shell completion of commands, options, run ids, and names of lanes, jobs and the like.

On each press of Tab the shell starts `laneway` with `_LANEWAY_COMPLETE` set, and click prints the candidates. The user
waits meanwhile: nothing here may be slow, print anything else, or change a store.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from laneway.cli.shell.commands import Command
from laneway.cli.shell.options import json_option

if TYPE_CHECKING:
    from laneway.core.records.run import Run
    from laneway.scheduler import Scheduler

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
VARIABLE = "_LANEWAY_COMPLETE"
NEWEST = 50  # runs whose ids are offered
NAMES = 200  # names that are offered
SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    cls=Command,
    examples=(
        'eval "$(laneway completion bash)"',
        'eval "$(laneway completion zsh)"',
        "laneway completion fish > ~/.config/fish/completions/laneway.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
@json_option("shell and script")
@click.pass_context
def completion(context: click.Context, shell: str, as_json: bool) -> None:
    """Print a script that makes SHELL complete the commands, options, run ids and names of laneway.

    Put the `eval` line of the examples into ~/.bashrc or ~/.zshrc.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click supports every shell of the choice"
    script = kind(context.find_root().command, {}, "laneway", VARIABLE).source()
    if as_json:
        from laneway.cli.shell.output import print_json

        print_json({"v": 1, "shell": shell, "script": script})
    else:
        click.echo(script)


def run_argument(function: click.decorators.FC) -> click.decorators.FC:
    """Add the ID argument, which names a run."""
    return click.argument("run_id", metavar="ID", shell_complete=_run_ids)(function)


def runs_argument(*, required: bool = True) -> Callable[[F], F]:
    """Return the ID... argument, which names runs."""
    return click.argument("ids", metavar="ID...", nargs=-1, required=required, shell_complete=_run_ids)


def name_argument(noun: str, *, many: bool = False) -> Callable[[F], F]:
    """Return the argument that names a lane, session, user, task or job; with `many`, one or more of them."""
    metavar = noun.upper()

    def offered(context: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        found = _read(context, lambda scheduler: _NAMES[noun](scheduler, incomplete))
        return [CompletionItem(name) for name in dict.fromkeys(found) if name.startswith(incomplete)]

    if many:
        return click.argument("names", metavar=f"{metavar}...", nargs=-1, required=True, shell_complete=offered)
    return click.argument("name", metavar=metavar, shell_complete=offered)


async def _lanes(scheduler: Scheduler, _: str) -> list[str]:
    return [state.lane.name for state in await scheduler.lanes.list()]


async def _users(scheduler: Scheduler, incomplete: str) -> list[str]:
    # Users are ordered by (user, lane): all that begin with this text come after it, in any lane.
    return [state.user for state in await scheduler.users.list(limit=NAMES, after=(incomplete, ""))]


async def _sessions(scheduler: Scheduler, incomplete: str) -> list[str]:
    return [state.name for state in await scheduler.sessions.list(prefix=incomplete, limit=NAMES)]


async def _tasks(scheduler: Scheduler, _: str) -> list[str]:
    return [state.name for state in await scheduler.tasks.list()]


async def _jobs(scheduler: Scheduler, incomplete: str) -> list[str]:
    return [job.name for job in await scheduler.jobs.list(limit=NAMES, after=(incomplete[:-1], ""))]


_NAMES = {"lane": _lanes, "user": _users, "session": _sessions, "task": _tasks, "job": _jobs}


def _run_ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Return the newest runs whose ids begin with the text, each with its task and state."""
    from click.shell_completion import CompletionItem

    runs: list[Run] = _read(context, lambda scheduler: scheduler.runs(limit=NEWEST))
    return [
        CompletionItem(run.id, help=f"{run.task}, {run.state.value}") for run in runs if run.id.startswith(incomplete)
    ]


def _read(context: click.Context, ask: Callable[[Scheduler], Coroutine[Any, Any, list[T]]]) -> list[T]:
    """Read from the store that the command would use; return nothing if that fails."""
    from laneway.cli.shell.target import call, read_store

    try:
        return call(read_store(context.params.get("store")), ask)
    except Exception:  # noqa: BLE001  # no store, or not one of laneway: no candidates
        return []
