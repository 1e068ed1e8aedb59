"""How runs are shown: a line of each in a list, and everything about one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from laneway.cli.runs import questions, relatives, stages
from laneway.cli.runs.relatives import Relative, Relatives
from laneway.cli.runs.stages import Stages
from laneway.cli.shell import formats
from laneway.cli.shell.output import style, symbol, to_json
from laneway.cli.shell.view import Block, Column, Fact, Part, View
from laneway.core.records.codec import from_json, to_dict
from laneway.core.records.memos import MemoKind

if TYPE_CHECKING:
    from laneway.core.records.memos import Question
    from laneway.core.records.run import Message, Run
    from laneway.scheduler import Scheduler

PAGE = 1000  # messages per read


def _with_symbols(states: list[str], on_terminal: bool) -> list[str]:
    # In a pipe each column is one word, so that `awk '{print $6}'` prints the state.
    return [f"{symbol(state)} {state}" for state in states] if on_terminal else states


RUN: View[Run] = View(
    Column("id", lambda run: run.id, shown=lambda ids, _: formats.short_ids(ids)),
    Column("task", lambda run: run.task, least=24),
    Column("user", lambda run: run.user, spare=6),
    Column("session", lambda run: run.session, spare=4),
    Column("lane", lambda run: run.lane, spare=1),
    Column("state", lambda run: run.state.value, style=lambda run: style(run.state), shown=_with_symbols),
    Column("attempt", lambda run: run.attempt, spare=5),
    Column("age", lambda run: formats.age(run.accepted_at, formats.now()), spare=7),
    Column("waited", lambda run: formats.waited(run, formats.now()), spare=3),
    Column("ran", lambda run: formats.ran(run, formats.now()), spare=2),
    Column("note", formats.note, least=24, style=lambda run: "red" if run.state == "failed" else "bright_black"),
    json=to_dict,
    gap=2,
)


class Details(NamedTuple):
    """A run with all that its page shows; `store` is the address for the commands in it."""

    run: Run
    stages: Stages
    taken: list[Message]  # all but the one that it was made of
    kin: Relatives
    store: str | None


async def details(scheduler: Scheduler, run_id: str, store: str | None) -> Details:
    """Read a run and what belongs to it."""
    run = await scheduler.get(run_id)
    taken = await _messages_of(scheduler, run)
    return Details(run, await stages.read(scheduler, run), taken, await relatives.read(scheduler, run), store)


async def _messages_of(scheduler: Scheduler, run: Run) -> list[Message]:
    """Return the messages that were merged into its arguments, then those of its inbox."""
    found: list[Message] = []
    if run.messages:
        store = await scheduler.open()
        while page := await store.messages(run.id, after=len(found), limit=PAGE):
            found += page
    return found


def _record(shown: Details) -> dict[str, Any]:
    taken = [{"v": 1, **msgspec.to_builtins(one), "args": from_json(one.args)} for one in shown.taken]
    return {**to_dict(shown.run), "taken": taken, **shown.kin.record(shown.run)}


def _title(shown: Details) -> list[Part]:
    run = shown.run
    state = f"{symbol(run.state)} {formats.standing(run)}"
    return [(run.task, "bold"), ("  ", ""), (state, style(run.state)), (f" ({run.reason})" if run.reason else "", "")]


def _facts(shown: Details) -> list[Fact]:
    run = shown.run
    crashes = f", {run.crashes} in a row ended in a crash" if run.crashes else ""
    return [
        ("id", run.id),
        ("number", str(run.number)),
        ("lane", f"{run.lane}" + (f", priority {run.priority}" if run.priority else "")),
        ("user", run.user or ""),
        ("session", run.session or ""),
        ("job", "" if run.job is None else f"{run.job.name}, for {run.job.nominal_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("attempt", f"{run.attempt}, started {run.fence} time{'s' * (run.fence != 1)}{crashes}"),
        ("worker", run.worker or ""),
        ("retry of", run.retry_of or ""),
        *_kept(shown.kin),
        *_times(run, shown.stages),
    ]


def _kept(kin: Relatives) -> list[Fact]:
    parent = kin.parent
    called = f", which called it as {parent.name}" if parent is not None and parent.name else ""
    steps, answers = kin.kept(MemoKind.STEP), kin.kept(MemoKind.ANSWER)
    return [
        ("parent", "" if parent is None else f"{_said(parent)}{called}"),
        ("steps", f"{len(steps)} kept: {', '.join(steps)}" if steps else ""),
        ("answers", f"{len(answers)} kept: {', '.join(answers)}" if answers else ""),
    ]


def _times(run: Run, reached: Stages) -> list[Fact]:
    now = formats.now()
    times = [
        ("accepted", run.accepted_at),
        ("due", run.due_at),
        ("started", run.started_at),
        ("overdue", reached.overdue_at),
        ("requested", reached.requested_at),
        ("delivered", reached.delivered_at),
        ("stuck", reached.stuck_at),
        ("stopped", reached.stopped_at),
        ("ended", run.ended_at),
    ]
    lines = [(name, formats.moment(at, now)) for name, at in times if at is not None]
    if ran := formats.ran(run, now):
        lines.append(("took", f"{ran}, after waiting {formats.waited(run, now)}"))
    return lines


def _blocks(shown: Details) -> Iterator[Block]:
    run, kin = shown.run, shown.kin
    for question in questions.questions(run):
        yield f"question {question.name}", _question(shown, question), ""
    awaited = {call.run_id for call in run.wait.calls} if run.wait is not None else set()
    for head, called in (
        ("waits for", [one for one in kin.called if one.id in awaited]),
        ("called", [one for one in kin.called if one.id not in awaited]),
        ("left behind", kin.left),
    ):
        if called:
            yield head, "\n".join(f"{_said(one)}" + (f"  ({one.name})" if one.name else "") for one in called), ""
    if shown.stages.stack and not run.ended:
        yield "stuck: it was told to stop, has not, and was at", shown.stages.stack, "red"
    yield "arguments", to_json(run.args, indent=True), ""
    if shown.taken:
        yield "messages it took", "\n".join(f"{one.kind.value:<7}  {one.id}  {one.args}" for one in shown.taken), ""
    if run.state == "succeeded":
        yield "result", to_json(run.result, indent=True), ""
    if run.error is not None:
        yield _error(run)


def _question(shown: Details, question: Question) -> str:
    value = question.question
    asked = value if isinstance(value, str) else to_json(value, indent=True)
    until = questions.until(question, formats.now())
    return f"{asked}\nuntil {until}\n{questions.command(shown.run, question, shown.store)}"


def _error(run: Run) -> Block:
    assert run.error is not None
    is_last = run.state in ("failed", "cancelled", "dropped")
    text = run.error.traceback or f"{run.error.type}: {run.error.message}"
    kind = "" if run.error.kind == "error" else f" ({run.error.kind})"
    return f"error{'' if is_last else ' of an earlier attempt'}{kind}", text.rstrip(), "red" if is_last else ""


def _said(one: Relative) -> str:
    if one.run is None:
        return f"{one.id}  deleted since"
    return f"{one.id}  {one.run.task}, {formats.standing_at(one.run, formats.now())}"


RUN_DETAILS: View[Details] = View(json=_record, title=_title, facts=_facts, blocks=_blocks)
