"""The questions of a run in words, and the commands that answer them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from laneway.cli.runs.events import event_text
from laneway.cli.shell import formats
from laneway.cli.shell.hints import store_words
from laneway.cli.shell.output import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.core.records.events import Event
    from laneway.core.records.memos import Question
    from laneway.core.records.run import Run


def questions(run: Run) -> tuple[Question, ...]:
    """Return the open questions of a run."""
    return run.wait.questions if run.wait is not None else ()


def command(run: Run, question: Question, store: str | None) -> str:
    """Return the command that answers a question; it names the question if there are several."""
    name = f" --name {shlex.quote(question.name)}" if len(questions(run)) > 1 else ""
    return f"laneway runs answer {run.id} ANSWER{name}{store_words(store)}"


def how_to_answer(run: Run, event: Event, store: str | None) -> str:
    """Return the question of this event, with the command that answers it if the run still waits."""
    said = f"it asks {event_text(event)}"
    name = event.data.get("name") if isinstance(event.data, dict) else None
    commands = [command(run, question, store) for question in questions(run) if question.name == name]
    return one_line("; answer: ".join((said, *commands)))


def until(question: Question, now: datetime) -> str:
    """Return when a question expires."""
    from laneway.core.common.instants import instant

    return formats.moment(instant(question.until), now) if question.until is not None else ""


def listed(run: Run) -> str:
    """Return the open questions, one on each line."""
    return "\n".join(f"{question.name}  {formats.asked(question)}" for question in questions(run))
