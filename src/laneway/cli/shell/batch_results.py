"""Apply one action to several records, named one by one: a wrong name does not stop the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from laneway.cli.shell.errors import FINE, code_of, say
from laneway.cli.shell.output import print_json
from laneway.cli.shell.target import call
from laneway.errors import UsageError, WrongState

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler

T = TypeVar("T")


class Refused(NamedTuple):
    """The result for a name that no record has, or whose record is in a state that does not allow it."""

    given: str
    error: UsageError

    @property
    def message(self) -> str:
        """The sentence for the person who gave the name."""
        return f"run {self.given}: {self.error}" if isinstance(self.error, WrongState) else str(self.error)


def act_on_each(
    scheduler: Scheduler,
    names: Iterable[str],
    action: Callable[[Scheduler, str], Awaitable[T]],
    *,
    line: Callable[[T], str],
    record: Callable[[T], dict[str, Any]],
    as_json: bool,
    name: str = "id",
) -> int:
    """Apply the action to each name, print the results, return the exit code: `results_of`, then `print_results`."""

    async def acting(app: Scheduler) -> list[T | Refused]:
        return await results_of(names, lambda given: action(app, given))

    return print_results(call(scheduler, acting), line=line, record=record, as_json=as_json, name=name)


async def results_of(names: Iterable[str], action: Callable[[str], Awaitable[T]]) -> list[T | Refused]:
    """Apply the action to each name in order and return the results; a name that is given twice counts once."""
    results: list[T | Refused] = []
    for given in dict.fromkeys(names):
        try:
            results.append(await action(given))
        except UsageError as error:
            results.append(Refused(given, error))
    return results


def print_results(
    results: Sequence[T | Refused],
    *,
    line: Callable[[T], str],
    record: Callable[[T], dict[str, Any]],
    as_json: bool,
    name: str = "id",
) -> int:
    """Print each result as a line, or all as JSON; return the exit code, that of the first refusal if there is one.

    `name` is the JSON key of the given name.
    """
    refused = [result for result in results if isinstance(result, Refused)]
    if as_json:
        print_json([_refusal(result, name) if isinstance(result, Refused) else record(result) for result in results])
    else:
        for result in results:
            if not isinstance(result, Refused):
                click.echo(line(result))
    for refusal in refused:
        say(f"laneway: {refusal.message}")
    return code_of(refused[0].error) if refused else FINE


def _refusal(refused: Refused, name: str) -> dict[str, Any]:
    return {"v": 1, name: refused.given, "error": str(refused.error)}
