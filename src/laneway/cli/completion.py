"""`laneway completion`: what makes the shell complete commands, options and run ids.

The shell asks by starting `laneway` with `_LANEWAY_COMPLETE` set, and click answers. It does so while somebody waits
with a finger on the Tab key, so nothing here may be slow, print a word of its own, or change a store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from laneway.cli.commands import Command, awaited, json_option

if TYPE_CHECKING:
    from laneway.core.run import Run

F = TypeVar("F", bound=Callable[..., Any])
VARIABLE = "_LANEWAY_COMPLETE"
NEWEST = 50  # runs whose ids are offered
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
    """Print a script that makes SHELL complete the commands, options and run ids of laneway.

    Put the `eval` line of the examples into ~/.bashrc or ~/.zshrc.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows every shell there is a choice of"
    script = kind(context.find_root().command, {}, "laneway", VARIABLE).source()
    if as_json:
        from laneway.cli.output import print_json

        print_json({"v": 1, "shell": shell, "script": script})
    else:
        click.echo(script)


def run_argument(function: click.decorators.FC) -> click.decorators.FC:
    """Add the ID argument, which names a run."""
    return click.argument("run_id", metavar="ID", shell_complete=_run_ids)(function)


def runs_argument(*, required: bool = True) -> Callable[[F], F]:
    """Return the ID... argument, which names runs."""
    return click.argument("ids", metavar="ID...", nargs=-1, required=required, shell_complete=_run_ids)


def _run_ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Return the newest runs whose ids begin so, each with what it is."""
    from click.shell_completion import CompletionItem

    try:
        runs = awaited(_newest(context.params.get("store")))
    except Exception:  # noqa: BLE001  # no store, or not one of ours: then there is nothing to offer
        return []
    return [
        CompletionItem(run.id, help=f"{run.task}, {run.state.value}") for run in runs if run.id.startswith(incomplete)
    ]


async def _newest(url: str | None) -> list[Run]:
    from laneway.cli.app import read_store

    async with read_store(url) as scheduler:
        return await scheduler.runs(limit=NEWEST)
