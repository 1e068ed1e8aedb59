"""One answer for each run that was named: a bad id never keeps its neighbours from theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from laneway.cli.shell.errors import FINE, code_of, say
from laneway.cli.shell.output import print_json
from laneway.errors import UsageError, WrongState

T = TypeVar("T")


class Refused(NamedTuple):
    """The answer to a name that names nothing, or something whose state does not allow it."""

    given: str
    error: UsageError

    @property
    def message(self) -> str:
        """What is said of it."""
        return f"run {self.given}: {self.error}" if isinstance(self.error, WrongState) else str(self.error)


async def each(ids: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> list[T | Refused]:
    """Return the answers in order; the same id twice is asked once."""
    answers: list[T | Refused] = []
    for given in dict.fromkeys(ids):
        try:
            answers.append(await ask(given))
        except UsageError as error:
            answers.append(Refused(given, error))
    return answers


def told(
    answers: Sequence[T | Refused],
    *,
    line: Callable[[T], str],
    record: Callable[[T], dict[str, Any]],
    as_json: bool,
    name: str = "id",
) -> int:
    """Print each answer as a line, or all as JSON; return the exit code, that of the first refusal if there is one.

    `name` is what a record calls that which was named.
    """
    if as_json:
        print_json([_refusal(answer, name) if isinstance(answer, Refused) else record(answer) for answer in answers])
    else:
        for answer in answers:
            if not isinstance(answer, Refused):
                click.echo(line(answer))
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    for refusal in refused:
        say(f"laneway: {refusal.message}")
    return code_of(refused[0].error) if refused else FINE


def _refusal(refused: Refused, name: str) -> dict[str, Any]:
    return {"v": 1, name: refused.given, "error": str(refused.error)}
