"""What else is written when a run ends: its follow-ups, and the result for the run that waits for it.

The atomic step that ends a run also writes these, whether its worker ends it, a cancel, or a takeover from a dead
worker. So they happen exactly once, or, if the run does not end, not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from laneway.core.records import events
from laneway.core.records.events import Draft, draft
from laneway.core.records.memos import Ending, Memo, MemoKind, derived_id
from laneway.core.records.run import Failure, NewRun, RunLinks
from laneway.core.records.states import RunState

NO_TIES = RunLinks()


class Ended(Protocol):
    """What is known of a run that ends."""

    @property
    def id(self) -> str:
        """The run's id."""

    @property
    def user(self) -> str | None:
        """The user it belongs to."""

    @property
    def session(self) -> str | None:
        """The session that it has a place in."""

    @property
    def ties(self) -> RunLinks | None:
        """Its links to other runs."""


def follow_ups(run: Ended, state: RunState, held: Sequence[NewRun] = ()) -> list[NewRun]:
    """Return the follow-ups of a run that ends in this state; `held` are those that its last attempt held back.

    A success brings `held` and `then`, a failure `on_failure`. A cancelled or dropped run has none.
    """
    ties = run.ties or NO_TIES
    if state is RunState.SUCCEEDED:
        return [*held, *(left_by(run, new, "then", nth) for nth, new in enumerate(ties.then, 1))]
    if state is RunState.FAILED:
        return [left_by(run, new, "on_failure", nth) for nth, new in enumerate(ties.on_failure, 1)]
    return []


def left_by(run: Ended, new: NewRun, how: str, nth: object) -> NewRun:
    """Return a follow-up's submission: with an id of its own, and the run's user and trace.

    It belongs to the run's session unless it names another; `ties.session` is "" for none.
    """
    mine, its = run.ties or NO_TIES, new.ties or NO_TIES
    session = run.session or mine.session if new.session is None else new.session
    ties = msgspec.structs.replace(its, parent=run.id, depth=mine.depth + 1, trace=mine.trace, session=None)
    return msgspec.structs.replace(
        new,
        id=derived_id(run.id, how, nth),
        user=run.user,
        session=None if its.session == "" else session,
        inside=True,
        ties=ties,
    )


def called_by(run: Ended, new: NewRun, name: str, tries: int, about: str) -> NewRun:
    """Return the submission of a called run: it names the caller's session, and takes no place in it."""
    left = left_by(run, new, f"call {name}", tries)
    ties = msgspec.structs.replace(left.ties or NO_TIES, call=name, tries=tries, about=about, session=left.session)
    return msgspec.structs.replace(left, session=None, ties=ties)


def word_of(
    run: Ended, state: RunState, attempt: int, result: str | None, reason: str | None, failure: Failure | None
) -> tuple[Memo, Draft]:
    """Return what a called run that ends gives to its caller: a memo and an event.

    `attempt` is the caller's attempt.
    """
    ties = run.ties or NO_TIES
    ending = None
    if state is not RunState.SUCCEEDED:
        ending = Ending(state, reason, None if failure is None else failure.message)
    memo = Memo(
        kind=MemoKind.CALL,
        name=ties.call or "",
        value=result if ending is None else None,
        about=ties.about,
        attempt=attempt,
        run_id=run.id,
        tries=ties.tries,
        ending=ending,
    )
    return memo, draft(events.RETURNED, {"name": ties.call, "run_id": run.id, "state": state.value})
