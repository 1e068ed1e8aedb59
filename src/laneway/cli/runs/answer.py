"""`laneway runs answer`: give a waiting run its answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from laneway.cli.shell.commands import Command
from laneway.cli.shell.completion import run_argument
from laneway.cli.shell.errors import CONFLICT, FINE, Problem
from laneway.cli.shell.formats import standing
from laneway.cli.shell.options import json_option
from laneway.cli.shell.target import call, read_store, store_option

if TYPE_CHECKING:
    from laneway.core.records.run import Run
    from laneway.scheduler import Scheduler

STDIN = "-"


@click.command(
    "answer",
    cls=Command,
    examples=(
        "laneway runs answer 0197f0c2a1b3 yes",
        'laneway runs answer 0197f0c2a1b3 "Yes, but not on a Friday" --name publish',
        """laneway runs answer 0197f0c2a1b3 '{"budget": 500}' --json-value""",
        "laneway runs answer 0197f0c2a1b3 -",
    ),
)
@run_argument
@click.argument("given", metavar="ANSWER")
@click.option("--name", metavar="NAME", help="The question to answer; needed if the run has asked several.")
@click.option("--json-value", is_flag=True, help="ANSWER is JSON; otherwise it is text.")
@json_option("the run")
@store_option
def answer(run_id: str, given: str, name: str | None, json_value: bool, as_json: bool, store: str | None) -> int:
    """Answer the question of a waiting run; it goes on with ANSWER.

    ANSWER is text, or JSON with --json-value; - reads it from stdin, without its last line break. The first answer
    counts, if it comes before the question expires. What a run asks: laneway runs show ID.

    Exits with 2 if the run has asked several questions and --name is missing, 3 if there is no such run, 5 if the run
    does not wait for that answer, or no longer.
    """
    from laneway.cli.shell.output import print_json
    from laneway.core.records.codec import to_dict

    text = _stdin() if given == STDIN else given
    value = _value(text) if json_value else text
    run = call(read_store(store), lambda scheduler: _answer(scheduler, run_id, value, name))
    if as_json:
        print_json(to_dict(run))
    else:
        click.echo(f"{run.id}  {standing(run)}")
    return FINE


def _stdin() -> str:
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise Problem(f"stdin is not text: {error}") from None


def _value(text: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Problem(f"ANSWER is not JSON: {error}", hint="without --json-value it is text") from None


async def _answer(scheduler: Scheduler, run_id: str, value: Any, name: str | None) -> Run:
    from laneway.errors import NotWaiting

    run = await scheduler.get(run_id)
    _check(run, name)
    try:
        return await scheduler.answer(run, value, name=name)
    except NotWaiting:
        raise _refusal(await scheduler.get(run.id), name) from None


def _check(run: Run, name: str | None) -> None:
    from laneway.cli.runs import questions

    asked = questions.questions(run)
    if name is None and len(asked) > 1:
        raise Problem(
            f"run {run.id} has asked {len(asked)} questions; say which is answered: --name NAME",
            hint=questions.listed(run).replace("\n", "\n  "),
        )


def _refusal(run: Run, name: str | None) -> Problem:
    """Return the error that says what the run does instead of waiting for that answer."""
    from laneway.cli.runs import questions, why

    asked = questions.questions(run)
    if asked:
        head = f"run {run.id} has not asked {name!r}; it waits for the answer to"
        return Problem(f"{head} {', '.join(repr(question.name) for question in asked)}", code=CONFLICT)
    said = why.stands(run)
    doing = said if said.startswith("it ") else f"it is {said}"
    return Problem(f"run {run.id} waits for no answer: {doing}", code=CONFLICT)
