"""`pause`, `resume`, `enable` and `disable`: verbs that lanes, sessions, users and tasks share."""

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

Warner = Callable[["Scheduler", str], Awaitable[str]]


class Switch(NamedTuple):
    """What a verb sets, to which value, and the word for the output."""

    field: str
    value: bool
    done: str


SWITCHES = {
    "pause": Switch("paused", True, "paused"),
    "resume": Switch("paused", False, "resumed"),
    "disable": Switch("disabled", True, "disabled"),
    "enable": Switch("disabled", False, "enabled"),
}


def switch(noun: str, verb: str, text: str, *, example: str, warning: Warner | None = None) -> Command:
    """Return the command that applies this verb to one or more names; `warning` may return a warning about a name."""
    field, value, done = SWITCHES[verb]

    @click.command(verb, cls=Command, help=text, examples=(f"laneway {noun}s {verb} {example}",))
    @name_argument(noun, many=True)
    @json_option(f"the {noun}s")
    @store_option
    def command(names: tuple[str, ...], as_json: bool, store: str | None) -> int:
        from laneway.cli.shell.batch_results import act_on_each

        async def act(scheduler: Scheduler, name: str) -> str:
            await getattr(getattr(scheduler, f"{noun}s"), verb)(name)
            if warning is not None and (text := await warning(scheduler, name)):
                say(text)
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
