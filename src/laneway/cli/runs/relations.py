"""What a run is tied to, what it waits for and what it has kept, for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from laneway.cli.runs import questions
from laneway.cli.shell import formats
from laneway.cli.shell.output import to_json
from laneway.core.records.memos import MemoKind

if TYPE_CHECKING:
    from laneway.cli.runs.relatives import Kin, Relative
    from laneway.core.records.memos import Question
    from laneway.core.records.run import Run


def facts_of(kin: Kin) -> list[tuple[str, str]]:
    """Return in a line each whose it is, and how much it has kept."""
    parent = kin.parent
    called = f", which called it as {parent.name}" if parent is not None and parent.name else ""
    steps, answers = kin.kept(MemoKind.STEP), kin.kept(MemoKind.ANSWER)
    return [
        ("parent", "" if parent is None else f"{_said(parent)}{called}"),
        ("steps", f"{len(steps)} kept: {', '.join(steps)}" if steps else ""),
        ("answers", f"{len(answers)} kept: {', '.join(answers)}" if answers else ""),
    ]


def blocks(run: Run, kin: Kin, store: str | None) -> Iterator[tuple[str, str]]:
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
