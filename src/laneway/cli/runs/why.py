"""`laneway why`: explain why a run does not start."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from laneway.cli.runs import questions
from laneway.cli.shell import formats
from laneway.cli.shell.commands import Command
from laneway.cli.shell.completion import run_argument
from laneway.cli.shell.hints import store_words
from laneway.cli.shell.options import json_option
from laneway.cli.shell.output import one_line
from laneway.cli.shell.target import call, read_store, store_option

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.core.records.run import Reason, Run
    from laneway.scheduler import Scheduler

WAITING = ("pending", "paused", "waiting")
WITH_COMMAND = ("paused", "answer", "breaker_open")  # the sentence ends with the command that opens the gate
TRIES = 5  # a run does not change more often between two reads


@click.command("why", cls=Command, examples=("laneway why 0197f0c2a1b3", "laneway why 0197f0c2a1b3 --json"))
@run_argument
@json_option("the gates that are closed for it")
@store_option
def why(run_id: str, store: str | None, as_json: bool) -> None:
    """Explain why a run does not start.

    Prints every closed gate, the runs that hold it, and when it opens, if known. The run starts when all are open. For
    a run that is running or has ended, prints that instead.
    """
    from laneway.cli.shell.output import print_json

    async def read(app: Scheduler) -> tuple[Run, list[Reason], dict[str, Run]]:
        run, found = await _read(app, run_id)
        return run, found, {} if as_json else await _holders(app, found)

    run, found, holders = call(read_store(store), read)
    if as_json:
        print_json(_record(run, found))
        return
    for line in told(run, found, holders, store):
        click.echo(line)


async def _read(scheduler: Scheduler, run_id: str) -> tuple[Run, list[Reason]]:
    """Return a run and the closed gates, read so that both fit together."""
    run = await scheduler.get(run_id)
    found: list[Reason] = []
    for _ in range(TRIES):
        found = await scheduler.why(run)
        run = await scheduler.get(run.id)
        # Race: it may have been started, given back or tried again between the two.
        if bool(found) is (run.state in WAITING):
            break
    return run, found


async def _holders(scheduler: Scheduler, found: Sequence[Reason]) -> dict[str, Run]:
    """Return the runs that hold the gates, by id; one that was deleted meanwhile is missing."""
    from laneway.errors import UnknownRun

    runs = {}
    for run_id in {run_id: None for reason in found for run_id in reason.runs}:
        try:
            runs[run_id] = await scheduler.get(run_id)
        except UnknownRun:
            continue
    return runs


def _record(run: Run, found: Sequence[Reason]) -> dict[str, Any]:
    """Return the JSON of the reasons."""
    import msgspec

    return {"v": 1, "run_id": run.id, "state": run.state.value, "reasons": msgspec.to_builtins(found)}


def told(run: Run, found: Sequence[Reason], holders: Mapping[str, Run], store: str | None) -> Iterator[str]:
    """Yield the lines; commands in them name the store as this command did."""
    now = formats.now()
    yield one_line(f"{run.id}  {run.task}: {stands(run)}")
    if not found:
        return
    yield "it has not started, because" if not run.fence else "it does not go on, because"
    for reason in found:
        there = store_words(store) if reason.gate in WITH_COMMAND and not reason.runs else ""
        yield one_line(f"  {_SENTENCES.get(reason.gate, _other)(reason, run, now)}{there}")
        for run_id in reason.runs:
            holder = holders.get(run_id)
            yield one_line(
                f"      {run_id}" + (f"  {holder.task}, {formats.standing_at(holder, now)}" if holder else "")
            )
        if reason.ahead and reason.runs and reason.ahead > len(reason.runs):
            yield f"      and {reason.ahead - len(reason.runs)} more"


def stands(run: Run) -> str:
    """Return what a run does now, or when it ended."""
    now = formats.now()
    if run.ended:
        reason = f" ({run.reason})" if run.reason else ""
        return f"it has ended, {run.state.value}{reason} {formats.age(run.ended_at or now, now)} ago"
    if run.state == "running":
        return f"it is {formats.standing_at(run, now)}, by worker {run.worker}"
    return f"{formats.standing_at(run, now)}, accepted {formats.age(run.accepted_at, now)} ago"


def _paused(reason: Reason, run: Run, _: datetime) -> str:
    if reason.holder == "run":
        return f"it is paused; let it go on: laneway runs resume {run.id}"
    noun, name = (reason.holder or "").split(" ", 1)
    return f"{noun} {name} is paused; let it go on: laneway {noun}s resume {shlex.quote(name)}"


def _not_due(reason: Reason, run: Run, now: datetime) -> str:
    what = f"attempt {run.attempt}" if run.attempt > 1 else "it"
    return f"{what} is not due before {formats.moment(reason.opens_at or run.due_at, now)}"


def _busy(reason: Reason, _: Run, __: datetime) -> str:
    count = reason.ahead or len(reason.runs)
    return f"{reason.holder} is busy: {count} run{'s are' if count != 1 else ' is'} before it"


def _full(reason: Reason, run: Run, _: datetime) -> str:
    if not reason.runs:
        return f"no worker that knows task {run.task} may take more of lane {run.lane}: all are at its limit per worker"
    return f"{reason.holder} is full; running in it:"


def _at_cap(reason: Reason, run: Run, _: datetime) -> str:
    return f"{reason.holder} has as many runs in lane {run.lane} as may be running at once:"


def _no_worker(_: Reason, run: Run, __: datetime) -> str:
    return f"no worker that is up knows task {run.task}; start one: laneway worker APP"


def _turn(reason: Reason, _: Run, __: datetime) -> str:
    if not reason.ahead:
        return f"every gate is open: it is next in {reason.holder}, and starts when a worker has room"
    return f"it is not its turn: {reason.ahead} startable in {reason.holder} before it"


def _breaker(reason: Reason, run: Run, now: datetime) -> str:
    if reason.runs:
        return f"the breaker of {reason.holder} lets one run through, and waits for what it comes to:"
    task = shlex.quote(run.task)
    if reason.opens_at is None:
        return (
            f"the breaker of {reason.holder} has opened for good; accept and start again: laneway tasks enable {task}"
        )
    tried = f"it tries one run at {formats.moment(reason.opens_at, now)}"
    whose = "" if reason.holder == f"task {run.task}" else f" --user {shlex.quote(run.user or '')}"
    return f"the breaker of {reason.holder} is open; {tried}; close it now: laneway tasks close {task}{whose}"


def _memory_short(_: Reason, run: Run, __: datetime) -> str:
    return f"the workers that know task {run.task} are short of memory, and start nothing until there is more"


def _shut(reason: Reason, _: Run, __: datetime) -> str:
    way, place = (reason.holder or "move to ?").split(" ", 2)[1:]
    if way == "from":
        then = f"opens when that is done, or is emptied: laneway move {shlex.quote(place)} TO --abort"
        return f"the store is being filled by a move from {place}, and {then}"
    then = f"it goes on there when that is done, or here after laneway move FROM {shlex.quote(place)} --abort"
    return f"the store is shut for a move to {place}: {then}"


def _last_chance(_: Reason, run: Run, __: datetime) -> str:
    crashed = f"it has crashed {run.crashes} times and" if run.crashes != 1 else "it has crashed and"
    alone = "no worker executes two such runs at once; it waits for the end of:"
    return f"{crashed} is quarantined by one more crash: {alone}"


def _asked(reason: Reason, run: Run, now: datetime) -> str:
    question = next((one for one in questions.questions(run) if reason.holder == f"question {one.name}"), None)
    if question is None:
        return _other(reason, run, now)
    asked = f"it has asked {question.name}: {formats.asked(question, formats.SHORT)}"
    return f"{asked}; answer before {questions.until(question, now)}: {questions.command(run, question, None)}"


def _called(reason: Reason, _: Run, __: datetime) -> str:
    count = reason.ahead or len(reason.runs)
    return f"it waits for {count} run{'s' * (count != 1)} that it has called:"


def _other(reason: Reason, _: Run, now: datetime) -> str:
    opens = f", opens {formats.moment(reason.opens_at, now)}" if reason.opens_at else ""
    return f"{reason.gate.value.replace('_', ' ')}" + (f": {reason.holder}" if reason.holder else "") + opens


_SENTENCES: Mapping[str, Callable[[Reason, Run, datetime], str]] = {
    "not_due": _not_due,
    "session_busy": _busy,
    "lane_full": _full,
    "user_at_cap": _at_cap,
    "no_worker": _no_worker,
    "turn": _turn,
    "paused": _paused,
    "breaker_open": _breaker,
    "memory_short": _memory_short,
    "shut": _shut,
    "last_chance": _last_chance,
    "answer": _asked,
    "call": _called,
}
