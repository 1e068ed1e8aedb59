"""Questions, calls and memos of a handler, in the form in which a worker writes them."""

from __future__ import annotations

from laneway.core.lifecycle.outcome import Waits
from laneway.core.records import codec
from laneway.core.records.memos import Called, Memo, MemoKind, Question, Wait
from laneway.core.records.run import NewRun, RunLinks

MINUTE = 60.0


def question(name: str = "ok", *, timeout: float = MINUTE, about: str = "", until: int | None = None) -> Question:
    """Return a question of that name; `timeout` is in seconds; `until` is set if the question was asked before."""
    return Question(name=name, question=f"{name}?", timeout=round(timeout * 1_000_000), about=about, until=until)


def waits(*things: str | Question | NewRun) -> Waits:
    """Return the outcome of a handler that waits for all of these: questions, by name or whole, and called runs."""
    calls = tuple(thing for thing in things if isinstance(thing, NewRun))
    asked = [question(thing) if isinstance(thing, str) else thing for thing in things if not isinstance(thing, NewRun)]
    return Waits(Wait(questions=tuple(asked), calls=tuple(map(called, calls))), calls)


def called(new: NewRun) -> Called:
    """Return the entry for a called run in the wait of its caller."""
    ties = new.ties or RunLinks()
    return Called(name=ties.call or "", run_id=new.id, about=ties.about, tries=ties.tries)


def step_memo(name: str, value: object = None, *, nth: int = 1, about: str = "") -> Memo:
    """Return the memo of a step with that result."""
    text = codec.to_json(value, "the result", codec.RESULT_LIMIT)
    return Memo(kind=MemoKind.STEP, name=name, value=text, about=about, nth=nth)
