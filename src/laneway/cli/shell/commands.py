"""The classes of all commands: examples in the help, `--debug`, and one way to end."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import click

from laneway.cli.shell.errors import FINE, explain

T = TypeVar("T")
DEBUG = "laneway.debug"


def _note_debug(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        context.find_root().obj[DEBUG] = True


class _Explained(click.Command):
    """A command whose help ends with examples that work as they are."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_note_debug,
                help="Show a traceback if something goes wrong.",
            )
        )

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one example per line."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class Command(_Explained):
    """A verb, such as `list` or `submit`."""


class Group(_Explained, click.Group):
    """A noun; without a verb it shows its help."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help if no verb is given."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit(FINE)
        return super().parse_args(ctx, args)

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the verbs in the order in which they were added: the order to learn them in."""
        return list(self.commands)


class Root(Group):
    """The whole command line: the one place where an error becomes a line on stderr and an exit code.

    `later` maps the name of each command to its module, imported when the command is used, and to a short description.
    """

    def __init__(self, *args: Any, later: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._later = {name: module for name, (module, _) in later.items()}
        self._words = [(name, words) for name, (_, words) in later.items()]
        for name, words in self._words:
            self.add_command(click.Command(name, short_help=words))  # a placeholder

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name."""
        if (place := self._later.pop(cmd_name, None)) is not None:
            module = importlib.import_module(f"laneway.cli.{place}")
            self.commands[cmd_name] = getattr(module, cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(self._words)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit with its code."""
        state: dict[str, bool] = {}
        extra.update(standalone_mode=False, prog_name="laneway", obj=state)
        try:
            returned = super().main(*args, **extra)
            code = returned if isinstance(returned, int) else FINE
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # any error must become one clear line
            code = explain(error, debug=state.get(DEBUG, False))
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; if the reader of a pipe has gone (`| head`), end silently."""
        try:
            returned = super().invoke(ctx)
            sys.stdout.flush()
            return returned
        except BrokenPipeError:
            # The interpreter flushes what is still buffered at its exit: it must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FINE


def awaited(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop of its own and return its result."""
    import asyncio

    return asyncio.run(work)
