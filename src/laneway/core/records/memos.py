"""What a run keeps for its later attempts, and what it waits for meanwhile.

A handler that starts again begins at its top. What it must not do, ask or pay for twice is kept as a *memo*, found by
its kind and name: the result of a step, the answer to a question, the outcome of a called run. A memo is written once
and stays. There is one exception: the memo of a call without success holds only for the attempt in which it was
written, so the next attempt calls again.

A run that asks or calls *waits*: it is not executed, holds no slot of its lane or user, and keeps its session's place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from laneway.core.records.states import RunState

MOST = 1000  # memos of one run
NAME_LIMIT = 200  # of the name of a step, a question or a call, in characters


class MemoKind(StrEnum):
    """The kinds of memos."""

    STEP = "step"
    ANSWER = "answer"
    CALL = "call"


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a called run ended without success."""

    state: RunState
    reason: str | None = None
    message: str | None = None


class Memo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result that a run keeps. `value` is JSON text; `about` tells apart what was asked under the same name.

    `nth` counts the steps of an attempt. The memo of a call names the called run, the attempt in which its outcome was
    written, its try (the first is 0), and, if it has no value, how it ended.
    """

    kind: MemoKind
    name: str
    value: str | None = None
    about: str = ""
    nth: int = 0
    attempt: int = 1
    run_id: str | None = None
    tries: int = 0
    ending: Ending | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question of a run, any JSON. `until` is the last instant for an answer; the store sets it."""

    name: str
    question: Any
    timeout: int
    about: str = ""
    until: int | None = None


class Called(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run that another waits for, under the name of the call; `tries` as in its memo."""

    name: str
    run_id: str
    about: str = ""
    tries: int = 0


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run waits for. Any one of these lets it continue.

    `others` are the ids of runs that it called before and does not wait for now. They still end with it.
    """

    questions: tuple[Question, ...] = ()
    calls: tuple[Called, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def until(self) -> int | None:
        """The end of its first question's time; None if it asks nothing."""
        return min((question.until for question in self.questions if question.until is not None), default=None)

    @property
    def called(self) -> tuple[str, ...]:
        """The ids of all runs that it called and that may not have ended."""
        return (*(call.run_id for call in self.calls), *self.others)

    def stamped(self, now: int, before: Wait | None = None, memos: Iterable[Memo] = ()) -> Wait:
        """Return the wait as stored at `now`: each new question gets its last instant.

        `before` is what the run waited for last, `memos` are its memos: calls that have not returned since are kept.

        >>> wait = Wait(questions=(Question(name="ok", question="ok?", timeout=5),))
        >>> wait.stamped(100).until
        105
        >>> wait.stamped(100, Wait(calls=(Called(name="search", run_id="b"),))).called
        ('b',)
        """
        asked = tuple(
            question if question.until is not None else msgspec.structs.replace(question, until=now + question.timeout)
            for question in self.questions
        )
        known = {call.run_id for call in self.calls} | {memo.run_id for memo in memos}
        others = tuple(run_id for run_id in (before.called if before is not None else ()) if run_id not in known)
        return Wait(questions=asked, calls=self.calls, others=others)

    def is_over(self, memos: Iterable[Memo]) -> bool:
        """Tell whether one of the called runs has ended already."""
        called = {call.run_id for call in self.calls}
        return any(memo.run_id in called for memo in memos)


class Recall(msgspec.Struct, frozen=True):
    """What a run has kept: its memos in the order of writing, and what it waited for last."""

    memos: list[Memo] = []
    wait: Wait | None = None


def kept(memos: tuple[Memo, ...], memo: Memo) -> tuple[Memo, ...]:
    """Return a run's memos with one more, which replaces the one of its kind and name."""
    return (*(other for other in memos if (other.kind, other.name) != (memo.kind, memo.name)), memo)


def derived_id(run_id: str, *parts: object) -> str:
    """Return the id of a run that another leaves behind: the same parts always give the same id.

    It begins with its parent's time, as ids do. If the parent's id is a UUID, it is a UUID of version 8.

    >>> derived_id("0197f0c2a1b37c00b1f2a3c4d5e6f708", "submit", 1)
    '0197f0c2a1b38a428154f0230decdc62'
    """
    text = "\x00".join([run_id, *map(str, parts)])
    chance = hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
    return f"{run_id[:12]}8{chance[:3]}{'89ab'[int(chance[3], 16) & 3]}{chance[4:19]}"
