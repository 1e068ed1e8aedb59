"""`pause`, `resume`, `enable` and `disable`: verbs of several nouns that all do the same to what is named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from laneway.cli.shell.commands import Command, awaited
from laneway.cli.shell.completion import name_argument
from laneway.cli.shell.errors import say
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import read_store, store_option

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler

Doubt = Callable[["Scheduler", str], Awaitable[str | None]]


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

    @click.command(verb, cls=Command, help=text, examples=(f"laneway {noun}s {verb} {example}",))
    @name_argument(noun, many=True)
    @json_option(f"the {noun}s")
    @store_option
    def command(names: tuple[str, ...], as_json: bool, store: str | None) -> int:
        return awaited(_switched(read_store(store), noun, verb, names, doubt, as_json=as_json))

    return command


async def _switched(
    scheduler: Scheduler, noun: str, verb: str, names: tuple[str, ...], doubt: Doubt | None, *, as_json: bool
) -> int:
    from laneway.cli.shell.batch_results import each, told

    field, value, done = SWITCHES[verb]

    async def ask(name: str) -> str:
        await getattr(getattr(scheduler, f"{noun}s"), verb)(name)
        if doubt is not None and (odd := await doubt(scheduler, name)):
            say(odd)
        return name

    async with scheduler:
        answers = await each(names, ask)
    return told(
        answers,
        line=lambda name: f"{name}  {done}",
        record=lambda name: {"v": 1, noun: name, field: value},
        as_json=as_json,
        name=noun,
    )
