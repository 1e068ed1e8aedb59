"""`pause`, `resume`, `enable` and `disable`: verbs of several nouns that all do the same to what is named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from laneway.cli.shell.commands import Command
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler

Doubt = Callable[["Scheduler", str], Awaitable[str]]


class Switch(NamedTuple):
    """What a verb sets, to what, and how that is said."""

    field: str
    value: bool
    done: str


SWITCHES = {
    "pause": Switch("paused", True, "paused"),
    "resume": Switch("paused", False, "resumed"),
    "disable": Switch("disabled", True, "disabled"),
    "enable": Switch("disabled", False, "enabled"),
}


def switch(noun: str, verb: str, text: str, *, example: str, doubt: Doubt | None = None) -> Command:
    """Return the command that does this verb to all it names; `doubt` may say what is odd about a name."""
    field, value, done = SWITCHES[verb]

    @click.command(verb, cls=Command, help=text, examples=(f"laneway {noun}s {verb} {example}",))
    @name_argument(noun, many=True)
    @json_option(f"the {noun}s")
    @store_option
    def command(names: tuple[str, ...], as_json: bool, store: str | None) -> int:
        from laneway.cli.shell.batch_results import act_on_each

        async def act(scheduler: Scheduler, name: str) -> str:
            await getattr(getattr(scheduler, f"{noun}s"), verb)(name)
            if doubt is not None and (odd := await doubt(scheduler, name)):
                say(odd)
            return name

        return act_on_each(
            read_store(store),
            names,
            act,
            line=lambda name: f"{name}  {done}",
            record=lambda name: {"v": 1, noun: name, field: value},
            as_json=as_json,
            name=noun,
        )

    return command
