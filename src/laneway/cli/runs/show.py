"""Everything about one run, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.cli.runs import questions
from laneway.cli.shell import facts, formats
from laneway.cli.shell.output import console, one_line, style, symbol, to_json
from laneway.core.records.codec import from_json
from laneway.core.records.memos import MemoKind

if TYPE_CHECKING:
    from rich.console import Console

    from laneway.cli.runs.relatives import Kin, Relative
    from laneway.cli.runs.stages import Stages
    from laneway.core.records.memos import Question
    from laneway.core.records.run import Message, Run
    from laneway.scheduler import Scheduler

PAGE = 1000  # messages read at once


def show(run: Run, stages: Stages, taken: Sequence[Message], kin: Kin, store: str | None) -> None:
    """Print the run: what it is, when things happened, what it was given, what came of it, where it is stuck.

    `taken` are the messages that it took beside the one it was made of; commands name the store as this one did.
    """
    from rich.text import Text

    out = console()
    out.print(
        Text.assemble(
            (one_line(run.task), "bold"),
            "  ",
            (f"{symbol(run.state)} {formats.standing(run)}", style(run.state)),
            _why(run),
        ),
        soft_wrap=True,
    )
    facts.lines(out, (*_facts(run), *_tied(kin), *_times(run, stages)))
    for head, text in _ties(run, kin, store):
        _block(out, head, text)
    if stages.stack and not run.ended:
        _block(out, "stuck: it was told to stop, has not, and was at", stages.stack, "red")
    _block(out, "arguments", to_json(run.args, indent=True))
    if taken:
        _block(out, "messages it took", "\n".join(f"{one.kind.value:<7}  {one.id}  {one.args}" for one in taken))
    if run.state == "succeeded":
        _block(out, "result", to_json(run.result, indent=True))
    if run.error is not None:
        earlier = (
            " of an earlier attempt" if run.state in ("succeeded", "pending", "running", "paused", "waiting") else ""
        )
        text = run.error.traceback or f"{run.error.type}: {run.error.message}"
        kind = "" if run.error.kind == "error" else f" ({run.error.kind})"
        _block(out, f"error{earlier}{kind}", text.rstrip(), "" if earlier else "red")


def _why(run: Run) -> str:
    return f" ({one_line(run.reason)})" if run.reason else ""


def _facts(run: Run) -> list[tuple[str, str]]:
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
    ]


def _times(run: Run, stages: Stages) -> list[tuple[str, str]]:
    now = formats.now()
    times = [
        ("accepted", run.accepted_at),
        ("due", run.due_at),
        ("started", run.started_at),
        ("overdue", stages.overdue_at),
        ("requested", stages.requested_at),
        ("delivered", stages.delivered_at),
        ("stuck", stages.stuck_at),
        ("stopped", stages.stopped_at),
        ("ended", run.ended_at),
    ]
    lines = [(name, formats.moment(at, now)) for name, at in times if at is not None]
    waited, ran = formats.waited(run, now), formats.ran(run, now)
    if ran:
        lines.append(("took", f"{ran}, after waiting {waited}"))
    return lines


def _block(out: Console, head: str, text: str, look: str = "") -> None:
    from rich.text import Text

    out.print()
    out.print(Text(head, style="bright_black"))
    for line in text.splitlines():
        out.print(Text(f"  {_harmless(line)}", style=look), soft_wrap=True)


def _harmless(line: str) -> str:
    # As `one_line`, but the indentation of code and JSON stays.
    return line[: len(line) - len(line.lstrip(" "))] + one_line(line.lstrip(" "))


def _tied(kin: Kin) -> list[tuple[str, str]]:
    """Return in a line each whose it is, and how much it has kept."""
    parent = kin.parent
    called = f", which called it as {parent.name}" if parent is not None and parent.name else ""
    steps, answers = kin.kept(MemoKind.STEP), kin.kept(MemoKind.ANSWER)
    return [
        ("parent", "" if parent is None else f"{_said(parent)}{called}"),
        ("steps", f"{len(steps)} kept: {', '.join(steps)}" if steps else ""),
        ("answers", f"{len(answers)} kept: {', '.join(answers)}" if answers else ""),
    ]


def _ties(run: Run, kin: Kin, store: str | None) -> Iterator[tuple[str, str]]:
    """Yield heads and texts: what it asks and how to answer, which runs it called, which it left behind."""
    now = formats.now()
    for question in questions.questions(run):
        lines = _whole(question), f"until {questions.until(question, now)}", questions.command(run, question, store)
        yield f"question {question.name}", "\n".join(lines)
    awaited = {call.run_id for call in run.wait.calls} if run.wait is not None else set()
    for head, called in (
        ("waits for", [one for one in kin.called if one.id in awaited]),
        ("called", [one for one in kin.called if one.id not in awaited]),
        ("left behind", kin.left),
    ):
        if called:
            yield head, "\n".join(f"{_said(one)}" + (f"  ({one.name})" if one.name else "") for one in called)


def _whole(question: Question) -> str:
    value = question.question
    return value if isinstance(value, str) else to_json(value, indent=True)


def _said(one: Relative) -> str:
    return f"{one.id}  " + (
        f"{one.run.task}, {formats.standing_at(one.run, formats.now())}" if one.run else "deleted since"
    )


async def messages_of(scheduler: Scheduler, run: Run) -> list[Message]:
    """Return them: those merged into its arguments, then those of its inbox, each kind in order."""
    found: list[Message] = []
    if run.messages:
        store = await scheduler.open()
        while page := await store.messages(run.id, after=len(found), limit=PAGE):
            found += page
    return found


def message_record(message: Message) -> dict[str, Any]:
    """Return a message as it is in JSON."""
    return {"v": 1, **msgspec.to_builtins(message), "args": from_json(message.args)}
