"""The replay log: what an attempt finds of earlier ones, and what it leaves: memos, questions, calls, follow-ups.

A handler begins at its top each time. The log finds by kind and name what was kept, so a step is not repeated, a
question is not asked again, a run is not called twice. If something is missing the handler *unwinds*: the attempt ends
as waiting, and the run starts again when there is an answer.

It is the same in the worker's process and in a child. Several threads of a handler may use it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from laneway.core.common import keys
from laneway.core.lifecycle import endings
from laneway.core.lifecycle.outcome import Outcome, Succeeded, Waits
from laneway.core.records import codec, memos
from laneway.core.records.events import STEPS_CHANGED, Draft, draft
from laneway.core.records.memos import Called, Memo, MemoKind, Question, Recall, Wait, derived_id
from laneway.core.records.run import Claimed, NewRun
from laneway.core.records.states import RunState
from laneway.engine.handlers.concurrent_steps import ConcurrentSteps
from laneway.errors import BadSetting, RunCancelled, RunDropped, RunEnded, RunFailed, StepsChanged
from laneway.settings import Settings

NOTHING = Recall()
_ENDINGS = {RunState.FAILED: RunFailed, RunState.CANCELLED: RunCancelled, RunState.DROPPED: RunDropped}


class _Branch(NamedTuple):
    """The progress of one branch of a handler's code: how many steps it has taken, and the last place among them.

    Concurrent tasks are branches of their own, which begin where they split. Between them there is no order.
    """

    start: object  # the call of the handler that it belongs to
    steps: int = 0
    last: int = 0


_branch: ContextVar[_Branch] = ContextVar("laneway_line")


class Unwound(BaseException):
    """Raised in a handler that must not go on: it saved, asked or called something, and starts again later.

    Not an Exception, so that `except Exception` does not catch it.
    """


def is_unwound(error: BaseException) -> bool:
    """Tell whether the error is Unwound, alone or in a group of only these."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_unwound, error.exceptions))
    return isinstance(error, Unwound)


class Bounds(NamedTuple):
    """Limits of a run's follow-ups and calls: how many of each, how many generations, and bytes of arguments."""

    children: int
    depth: int
    args: int

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        """Return the limits from the settings."""
        return cls(settings.max_children, settings.max_depth, settings.args_limit)


class ReplayLog:
    """One attempt's log. `begin` resets it to the handler's top."""

    def __init__(self, run: Claimed, bounds: Bounds, recall: Recall = NOTHING) -> None:
        self._run, self._bounds, self._recall = run, bounds, recall
        self._memos = {(memo.kind, memo.name): memo for memo in recall.memos}
        self.begin()

    def begin(self) -> None:
        """Begin at the top: nothing was asked, called or held back yet in this attempt."""
        self._used: set[tuple[MemoKind, str]] = set()
        self._unnamed: dict[str, int] = {}
        self._order: dict[str, int] = {}  # of steps, each within its branch
        self._start = object()
        self._questions: list[Question] = []
        self._called = 0  # including calls that have returned
        self._calls: list[NewRun] = []
        self._held: list[NewRun] = []
        self.reordered: list[Draft] = []
        self.concurrent_steps = ConcurrentSteps()

    @property
    def recall(self) -> Recall:
        """What the run has kept so far."""
        return Recall(list(self._memos.values()), self._recall.wait)

    # Steps

    def step(self, name: str) -> Memo | None:
        """Begin the step of that name: return its memo if it was taken before. Raises Unwound after the handler."""
        if self.concurrent_steps.over:
            raise Unwound
        self._use(MemoKind.STEP, name)
        memo = self._memos.get((MemoKind.STEP, name))
        if memo is None:
            self._check_room()
        self._check_order(name, memo)
        return memo

    def _check_order(self, name: str, memo: Memo | None) -> None:
        branch = _branch.get(None)
        if branch is None or branch.start is not self._start:
            branch = _Branch(self._start)
        self._order[name] = now = branch.steps + 1
        was = branch.last if memo is None else memo.nth
        if was < branch.last:
            self.reordered.append(draft(STEPS_CHANGED, {"step": name, "was": was, "now": now}))
        _branch.set(_Branch(self._start, now, max(branch.last, was)))

    def taken(self, name: str, value: str) -> Memo:
        """Return the memo for a step's result; `value` is JSON text."""
        self._check_room()  # several steps may have ended at the same time
        return Memo(kind=MemoKind.STEP, name=name, value=value, nth=self._order[name], attempt=self._run.attempt)

    def keep(self, memo: Memo) -> None:
        """Add a memo that is stored."""
        self._memos[memo.kind, memo.name] = memo

    def token(self, name: str) -> str:
        """Return the id of the step of that name; it is the same for every try."""
        return derived_id(self._run.id, MemoKind.STEP, name)

    # Questions

    def ask(self, text: str, name: str | None, timeout: int) -> str:
        """Return the answer as JSON text; if there is none, record the question and raise Unwound."""
        key, about = self._keyed(MemoKind.ANSWER, name, "", text)
        memo = self._memos.get((MemoKind.ANSWER, key))
        if memo is None:
            self._check_room()
            asked = Question(name=key, question=codec.from_json(text), timeout=timeout, about=about)
            self._questions.append(self._asked_before(asked) or asked)
            raise Unwound
        if memo.about != about:
            raise StepsChanged(
                f"question {key} was another one when it was answered; give ctx.ask a name, or make its text in a step"
            )
        return memo.value or "null"

    def _asked_before(self, asked: Question) -> Question | None:
        same = (asked.name, asked.about)
        return next((old for old in (self._recall.wait or Wait()).questions if (old.name, old.about) == same), None)

    # Calls

    def call(self, new: NewRun, name: str | None) -> str:
        """Return a called run's result as JSON text, or raise how it ended; before that, record the call and unwind."""
        key, about = self._keyed(MemoKind.CALL, name, new.task, new.args)
        self._called += 1
        memo = self._memos.get((MemoKind.CALL, key))
        if memo is not None and memo.about != about:
            raise StepsChanged(
                f"call {key!r} had other arguments in an earlier attempt; give ctx.call a name, or make them in a step"
            )
        if memo is not None and memo.ending is None:
            return memo.value or "null"
        tries = 0
        if memo is not None and memo.ending is not None:
            if memo.attempt == self._run.attempt:
                kind: type[RunEnded] = _ENDINGS[memo.ending.state]
                raise kind(memo.run_id or "", memo.ending.reason, memo.ending.message)
            tries = memo.tries + 1
        self._check_room()
        self._check_children(new, self._called - 1, "call")
        self._calls.append(endings.called_by(self._run, new, key, tries, about))
        raise Unwound

    # Follow-ups

    def hold(self, new: NewRun) -> str:
        """Hold a run back until this one has succeeded; return the id that it will have."""
        self._check_children(new, len(self._held), "submit")
        held = endings.left_by(self._run, new, "submit", len(self._held) + 1)
        self._held.append(held)
        return held.id

    # The end

    @property
    def waits(self) -> bool:
        """Whether the handler has asked or called something."""
        return bool(self._questions or self._calls)

    def outcome(self) -> Waits:
        """Return the outcome of an unwound attempt: what it waits for."""
        before = (self._recall.wait or Wait()).called
        fresh = tuple(new for new in self._calls if new.id not in before)
        calls = tuple(_called(new) for new in self._calls)
        return Waits(Wait(questions=tuple(self._questions), calls=calls), fresh)

    def after(self, outcome: Outcome) -> Outcome:
        """Return the outcome with held-back follow-ups; if something was asked or called, what the run waits for."""
        if isinstance(outcome, Waits):
            return self.outcome() if self.waits else outcome  # a child process's log made it
        if isinstance(outcome, Succeeded) and self._held:
            return Succeeded(outcome.result, tuple(self._held))
        return outcome

    def _check_room(self) -> None:
        if len(self._memos) >= memos.MOST:
            raise BadSetting(f"run {self._run.id} has kept {memos.MOST} results; a run can keep no more")

    def _check_children(self, new: NewRun, so_far: int, verb: str) -> None:
        if so_far >= self._bounds.children:
            raise BadSetting(f"a run can {verb} at most {self._bounds.children} runs (setting max_children)")
        depth = 0 if self._run.ties is None else self._run.ties.depth
        if depth + 1 + height(new) > self._bounds.depth:
            raise BadSetting(
                f"run {self._run.id} is {depth} generations deep; at most {self._bounds.depth} are allowed"
                " (setting max_depth)"
            )

    def _keyed(self, kind: MemoKind, name: str | None, sort: str, text: str) -> tuple[str, str]:
        """Return (memo name, argument digest). A name from the caller has no digest: the caller answers for it."""
        if name is not None:
            self._use(kind, name)
            return name, ""
        nth = self._unnamed[sort] = self._unnamed.get(sort, 0) + 1
        key = f"{sort} {nth}".lstrip()
        self._use(kind, key)
        return key, keys.digest(text)

    def _use(self, kind: MemoKind, name: object) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= memos.NAME_LIMIT or not name.isprintable():
            raise BadSetting(
                f"the name of a {_WORDS[kind]} is text of 1 to {memos.NAME_LIMIT} characters, not {name!r}"
            )
        if (kind, name) in self._used:
            raise BadSetting(f"{_WORDS[kind]} {name!r} comes twice in one attempt; each needs a name of its own")
        self._used.add((kind, name))


_WORDS = {MemoKind.STEP: "step", MemoKind.ANSWER: "question", MemoKind.CALL: "call"}


def _called(new: NewRun) -> Called:
    ties = new.ties or endings.NO_TIES
    return Called(name=ties.call or "", run_id=new.id, about=ties.about, tries=ties.tries)


def height(new: NewRun) -> int:
    """Return how many generations of follow-ups a submission has."""
    after = () if new.ties is None else (*new.ties.then, *new.ties.on_failure)
    return 1 + max(map(height, after)) if after else 0
