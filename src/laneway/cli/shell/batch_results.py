"""One answer for each run that was named: a bad id never keeps its neighbours from theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from laneway.cli.shell.errors import FINE, code_of, say
from laneway.cli.shell.formats import standing
from laneway.cli.shell.output import print_json
from laneway.core.records.codec import to_dict
from laneway.errors import UsageError, WrongState

if TYPE_CHECKING:
    from laneway.core.records.run import Receipt, Run
    from laneway.scheduler import Scheduler

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


async def changed(scheduler: Scheduler, ids: Iterable[str], verb: str, *, as_json: bool) -> int:
    """Call `scheduler.pause` or `.resume` for each run, and tell how it stands then."""
    async with scheduler:
        answers: list[Run | Refused] = await each(ids, getattr(scheduler, verb))
    return told(answers, line=lambda run: f"{run.id}  {standing(run)}", record=to_dict, as_json=as_json)


async def retried(scheduler: Scheduler, ids: Iterable[str], *, as_json: bool) -> int:
    """Submit each run once more; print the new ids, and say what they retry."""

    async def again(given: str) -> tuple[Run, Receipt]:
        run = await scheduler.get(given)
        return run, await scheduler.retry(run)

    async with scheduler:
        answers = await each(ids, again)
    for answer in answers:
        if not isinstance(answer, Refused):
            old, receipt = answer
            say(f"{receipt.run_id} retries {old.id}, a run of {old.task} that {_ended(old)}")
    return told(
        answers,
        line=lambda answer: answer[1].run_id,
        record=lambda answer: {**to_dict(answer[1]), "retry_of": answer[0].id},
        as_json=as_json,
    )


def _ended(run: Run) -> str:
    return f"was {run.state.value}" if run.state in ("cancelled", "dropped") else run.state.value
