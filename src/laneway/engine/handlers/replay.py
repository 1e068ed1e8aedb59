"""What an attempt finds of earlier ones, and what it leaves: memos, questions, calls, and runs it holds back.

A handler begins at its top each time. The trail knows by kind and name what was kept, so a step is not repeated, an
answer not asked for again, a called run not called twice. What is not there yet makes the handler *unwind*: the attempt
ends as waiting, and the run is started again when there is an answer.

The same in the worker's process and in a child. Handlers may use it from several threads.
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


class _Line(NamedTuple):
    """How far one line of a handler's code has come: the steps it has taken, and the last place among them.

    Tasks that go on side by side are lines of their own, which begin where they part: between them there is no order.
    """

    start: object  # which call of the handler it belongs to
    steps: int = 0
    last: int = 0


_line: ContextVar[_Line] = ContextVar("laneway_line")


class Unwound(BaseException):
    """Raised where a handler is not to go on from: it has saved, asked or called something, and starts again later.

    Not an Exception, so that no `except Exception` holds it up.
    """


def is_unwound(error: BaseException) -> bool:
    """Tell whether this is what unwound a handler, alone or in a group with others of its kind."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_unwound, error.exceptions))
    return isinstance(error, Unwound)


class Bounds(NamedTuple):
    """How far a run's children may go: how many of each sort, how many generations, and bytes of arguments."""

    children: int
    depth: int
    args: int

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        """Return the bounds that settings give."""
        return cls(settings.max_children, settings.max_depth, settings.args_limit)


class ReplayLog:
    """One attempt's trail. `begin` takes it back to the handler's top."""

    def __init__(self, run: Claimed, bounds: Bounds, recall: Recall = NOTHING) -> None:
        self._run, self._bounds, self._recall = run, bounds, recall
        self._memos = {(memo.kind, memo.name): memo for memo in recall.memos}
        self.begin()

    def begin(self) -> None:
        """Begin at the top: nothing of this attempt was asked, called or held back yet."""
        self._used: set[tuple[MemoKind, str]] = set()
        self._unnamed: dict[str, int] = {}
        self._order: dict[str, int] = {}  # of the steps, each in its line
        self._start = object()
        self._questions: list[Question] = []
        self._called = 0  # also those that have returned
        self._calls: list[NewRun] = []
        self._held: list[NewRun] = []
        self.reordered: list[Draft] = []
        self.concurrent_steps = ConcurrentSteps()

    @property
    def recall(self) -> Recall:
        """What the run has kept by now."""
        return Recall(list(self._memos.values()), self._recall.wait)

    # Steps

    def step(self, name: str) -> Memo | None:
        """Take the step of that name: return its memo if it was taken before. Raises Unwound once the handler ended."""
        if self.concurrent_steps.over:
            raise Unwound
        self._use(MemoKind.STEP, name)
        memo = self._memos.get((MemoKind.STEP, name))
        if memo is None:
            self._check_room()
        self._line_up(name, memo)
        return memo

    def _line_up(self, name: str, memo: Memo | None) -> None:
        line = _line.get(None)
        if line is None or line.start is not self._start:
            line = _Line(self._start)
        self._order[name] = now = line.steps + 1
        was = line.last if memo is None else memo.nth
        if was < line.last:
            self.reordered.append(draft(STEPS_CHANGED, {"step": name, "was": was, "now": now}))
        _line.set(_Line(self._start, now, max(line.last, was)))

    def taken(self, name: str, value: str) -> Memo:
        """Return the memo of a step that has been taken; `value` is JSON text."""
        self._check_room()  # several steps may have been taken at once
        return Memo(kind=MemoKind.STEP, name=name, value=value, nth=self._order[name], attempt=self._run.attempt)

    def keep(self, memo: Memo) -> None:
        """Hear that a memo is stored."""
        self._memos[memo.kind, memo.name] = memo

    def token(self, name: str) -> str:
        """Return what stays the same however often the step of that name is tried."""
        return derived_id(self._run.id, MemoKind.STEP, name)

    # Questions

    def ask(self, text: str, name: str | None, timeout: int) -> str:
        """Return the answer, as JSON text, or note the question and raise Unwound."""
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
        """Return the result of a called run, as JSON text, or raise how it ended; else note the call and unwind."""
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
        """Hold a run back until this one has succeeded; return the id it will have."""
        self._check_children(new, len(self._held), "submit")
        held = endings.left_by(self._run, new, "submit", len(self._held) + 1)
        self._held.append(held)
        return held.id

    # The end

    @property
    def waits(self) -> bool:
        """Tell whether the handler has asked or called something."""
        return bool(self._questions or self._calls)

    def outcome(self) -> Waits:
        """Return what an attempt that was unwound waits for."""
        before = (self._recall.wait or Wait()).called
        fresh = tuple(new for new in self._calls if new.id not in before)
        calls = tuple(_called(new) for new in self._calls)
        return Waits(Wait(questions=tuple(self._questions), calls=calls), fresh)

    def after(self, outcome: Outcome) -> Outcome:
        """Return an outcome with what was held back for it, or all that was asked and called by now."""
        if isinstance(outcome, Waits):
            return self.outcome() if self.waits else outcome  # a child's own trail made it
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
        """Return the name to find a memo by, and what must be the same then; who gave a name answers for that."""
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
    """Return how many generations of follow-ups a submission brings along."""
    after = () if new.ties is None else (*new.ties.then, *new.ties.on_failure)
    return 1 + max(map(height, after)) if after else 0
