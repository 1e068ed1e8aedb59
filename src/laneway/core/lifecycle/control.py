"""What a cancel, a pause and a resume do, decided from the run's state and its standing request.

A run that is not being executed changes at once. For a running one the change is *requested*: its worker is told, and
the request overrules the attempt's outcome when the run is settled (`core.lifecycle.outcome.overruled`).
"""

from __future__ import annotations

import msgspec

from laneway.core.lifecycle.outcome import CANCELLED
from laneway.core.records import events
from laneway.core.records.events import Draft, draft
from laneway.core.records.memos import Question, Wait
from laneway.core.records.run import Request, Why
from laneway.core.records.states import Move, RunState, after
from laneway.errors import BadSetting, NotWaiting, WrongState

ABANDONED = "abandoned"

_CANCEL = (draft(events.CANCEL_REQUESTED, {}),)
_PAUSE = (draft(events.PAUSE_REQUESTED, {}),)
_PAUSED = (draft(events.PAUSED, {}),)
_RESUMED = (draft(events.RESUMED, {}),)


class Change(msgspec.Struct, frozen=True):
    """What a run becomes: its state, its request if it still runs, why it ended, and the events."""

    state: RunState
    drafts: tuple[Draft, ...]
    request: Request | None = None
    reason: str | None = None


def cancel(
    state: RunState,
    request: Request | None,
    *,
    lapsed: bool = False,
    abandon: bool = False,
    why: Why | None = None,
) -> Change | None:
    """Return what a cancel changes, None if the run is cancelled or requested to be. Raises WrongState.

    `lapsed`: its worker is dead. `abandon`: do not wait for the handler. `why`: a reason to record.

    >>> cancel(RunState.PENDING, None).state.value
    'cancelled'
    >>> cancel(RunState.RUNNING, None).request.value
    'cancel'
    """
    if state is RunState.CANCELLED:
        return None
    running = state is RunState.RUNNING
    if running and not lapsed and not abandon:
        return None if request is Request.CANCEL else Change(state, _CANCEL, Request.CANCEL)
    requested = () if request is Request.CANCEL else _CANCEL
    reason = ABANDONED if running and abandon else why and why.value
    return Change(after(state, Move.CANCEL), requested + CANCELLED, reason=reason)


def drop(state: RunState, why: Why) -> Change:
    """Return what dropping changes for a run that was never started. Raises WrongState.

    >>> drop(RunState.PENDING, Why.SESSION_FULL).drafts[0]
    ('dropped', '{"reason":"session_full"}')
    """
    dropped = after(state, Move.DROP)
    drafts = (draft(events.DROPPED, {"reason": why.value}), draft(events.DONE, {"state": dropped.value}))
    return Change(dropped, drafts, reason=why.value)


def pause(state: RunState, request: Request | None) -> Change | None:
    """Return what a pause changes, None if the run is paused or requested to be. Raises WrongState."""
    if state is RunState.PAUSED or request is Request.PAUSE:
        return None
    if request is Request.CANCEL:
        raise WrongState(RunState.CANCELLED.value, Move.PAUSE.value)
    paused = after(state, Move.PAUSE)
    return Change(state, _PAUSE, Request.PAUSE) if state is RunState.RUNNING else Change(paused, _PAUSED)


def resume(state: RunState, request: Request | None) -> Change:
    """Return what a resume changes. Raises WrongState if the run is neither paused nor requested to be."""
    if request is Request.PAUSE:
        return Change(state, _RESUMED)
    return Change(after(state, Move.RESUME), _RESUMED)


def question_for(run_id: str, state: RunState, wait: Wait | None, name: str | None) -> Question:
    """Return the question that an answer is for; `name` may be left out if there is only one. Raises NotWaiting.

    >>> wait = Wait(questions=(Question(name="colour", question="Which?", timeout=5),))
    >>> question_for("a", RunState.WAITING, wait, None).name
    'colour'
    >>> question_for("a", RunState.SUCCEEDED, wait, None)
    Traceback (most recent call last):
    laneway.errors.NotWaiting: run a waits for no answer: it is succeeded
    """
    questions = wait.questions if wait is not None and state is RunState.WAITING else ()
    names = [question.name for question in questions]
    if not names:
        raise NotWaiting(run_id, state.value if state is not RunState.WAITING else "waiting for other runs")
    if name is None and len(names) > 1:
        raise BadSetting(f"run {run_id} has asked several questions; say which is answered: {', '.join(names)}")
    if name is not None and name not in names:
        raise NotWaiting(run_id, f"waiting for the answer to {names[0]!r}, not {name!r}")
    return questions[0 if name is None else names.index(name)]


def go_on(request: Request | None, *drafts: Draft) -> Change:
    """Return the change for a waiting run that continues: pending, or paused if that was requested."""
    if request is Request.PAUSE:
        return Change(RunState.PAUSED, (*drafts, *_PAUSED))
    return Change(RunState.PENDING, drafts)


def answered(question: Question, answer: str) -> Draft:
    """Return the event for an answer, given as JSON text."""
    return draft(events.ANSWERED, {"name": question.name, "answer": msgspec.Raw(answer.encode())})


def expire(wait: Wait, now: int) -> Change:
    """Return the change for a run whose question was not answered in time."""
    late = [question.name for question in wait.questions if question.until is not None and question.until <= now]
    told = draft(events.UNANSWERED, {"name": late[0] if late else None})
    return Change(RunState.CANCELLED, (told, *CANCELLED), reason=Why.UNANSWERED.value)


def supersede(by: str) -> Change:
    """Return the change for a run that waits for an answer when a message with this id came instead."""
    told = draft(events.SUPERSEDED, {"by": by})
    return Change(RunState.CANCELLED, (told, *CANCELLED), reason=Why.SUPERSEDED.value)
