"""Messages that become one run: what its handler is called with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from laneway import BadSetting, Retry, Scheduler, SessionPolicy
from laneway.core.records.run import ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.engine.handlers.start_hooks import join, last
from laneway.testing import FakeClock
from tests.support.waits import as_time_passes, until

QUICK = SessionPolicy(debounce=0.8)


class Answers:
    """A task that notes what it was called with."""

    def __init__(self, app: Scheduler, **options: Any) -> None:
        self.app = app
        self.seen: list[dict[str, Any]] = []

        @app.task(**options)
        async def answer(text: str, files: int = 0) -> None:
            self.seen.append({"text": text, "files": files})

        self.task = answer

    async def write(self, **args: Any) -> ReceiptOutcome:
        """Send a message and return what became of it."""
        return (await self.task.using(session="chat", session_policy=QUICK).submit(**args)).outcome


async def test_rapid_messages_collapse_into_one_run(app: Scheduler, clock: FakeClock) -> None:
    answers = Answers(app)

    outcomes = [await answers.write(text=text, files=n) for n, text in enumerate(["so", "what", "now?"])]
    await clock.advance(0.8)
    await app.drain()

    assert outcomes == [ReceiptOutcome.ACCEPTED, ReceiptOutcome.MERGED, ReceiptOutcome.MERGED]
    assert answers.seen == [{"text": "so\nwhat\nnow?", "files": 2}]
    [run] = await app.runs()
    assert (run.state, run.messages) == (RunState.SUCCEEDED, 2)


@pytest.mark.checklist("W4-4")
async def test_the_window_is_never_open_longer_than_max_wait(app: Scheduler, clock: FakeClock) -> None:
    # A stream of messages must not put the answer off for ever.
    answers = Answers(app)

    for _ in range(12):
        await answers.write(text="still there?")
        await clock.advance(0.5)
        await app.drain()

    assert [len(seen["text"].split("\n")) for seen in answers.seen] == [8]
    assert (await app.runs())[-1].due_at.timestamp() == pytest.approx(clock.now() / 1e6 - 6 + 4)


@pytest.mark.checklist("W4-4")
async def test_debounce_is_paid_once_and_not_again_before_each_queued_run(app: Scheduler, clock: FakeClock) -> None:
    # What waited for its window and then for its turn starts when it is its turn.
    answers = Answers(app)
    others = [answers.task.using(session="chat", user=user, session_policy=QUICK) for user in ("ann", "ben", "cat")]

    for task in others:
        await task.submit(text="hello")
    await clock.advance(0.8)
    await app.drain()

    assert len(answers.seen) == 3


@pytest.mark.parametrize(
    ("merge", "expected"),
    [
        ("join", {"text": "a\nb", "files": 2}),
        ("last", {"text": "b", "files": 2}),
        (
            lambda messages: {"text": str(len(messages)), "files": sum(m["files"] for m in messages)},
            {"text": "2", "files": 3},
        ),
    ],
    ids=["join", "last", "function"],
)
async def test_messages_are_folded_as_the_task_says(
    app: Scheduler, clock: FakeClock, merge: str | Callable[..., Any], expected: dict[str, Any]
) -> None:
    answers = Answers(app, merge=merge)

    await answers.write(text="a", files=1)
    await answers.write(text="b", files=2)
    await clock.advance(0.8)
    await app.drain()

    assert answers.seen == [expected]


def _raise(messages: list[dict[str, Any]]) -> dict[str, Any]:
    raise ValueError("these do not go together")


@pytest.mark.parametrize(
    ("merge", "kind", "message"),
    [
        (_raise, "bad_merge", "these do not go together"),
        (lambda _: "nonsense", "bad_merge", "merge returned 'nonsense'; it must return the arguments, a dict"),
        (lambda _: {"text": 5}, "bad_arguments", "answer, argument 'text': expected str, got int"),
        (lambda _: {}, "bad_arguments", "answer needs 'text'"),
    ],
    ids=["raises", "nonsense", "wrong type", "missing"],
)
async def test_a_merge_that_fails_fails_that_run_and_the_session_goes_on(
    app: Scheduler, clock: FakeClock, merge: Callable[..., Any], kind: str, message: str
) -> None:
    answers = Answers(app, merge=merge)
    await answers.write(text="a")
    await answers.write(text="b")
    await clock.advance(0.8)
    await app.drain()

    await answers.task.using(session="chat").submit(text="alone")
    await app.drain()

    alone, run = await app.runs()
    assert run.error is not None
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, kind, 1)
    assert run.error.message == message
    assert alone.state is RunState.SUCCEEDED
    assert answers.seen == [{"text": "alone", "files": 0}]


async def test_messages_are_folded_once_however_often_the_run_is_tried(app: Scheduler, clock: FakeClock) -> None:
    folds, seen = [], []

    def merge(messages: list[dict[str, Any]]) -> dict[str, Any]:
        folds.append(len(messages))
        return join(messages)

    @app.task(merge=merge, retry=Retry.delays(0, 0))
    async def answer(text: str) -> None:
        seen.append(text)
        if len(seen) < 3:
            raise ConnectionError("busy")

    for text in "ab":
        await answer.using(session="chat", session_policy=QUICK).submit(text=text)
    await clock.advance(0.8)
    await app.drain()

    assert seen == ["a\nb"] * 3
    assert folds == [2]


async def test_what_is_collected_waits_for_the_active_run_and_is_answered_once(app: Scheduler) -> None:
    may_end, seen = asyncio.Event(), []

    @app.task
    async def answer(text: str) -> None:
        seen.append(text)
        await may_end.wait()

    chat = answer.using(session="chat", session_policy=SessionPolicy(mode="collect"))
    async with app.running():
        first = await chat.submit(text="first")
        await until(lambda: bool(seen))
        rest = [await chat.submit(text=text) for text in ("second", "third")]
        may_end.set()
        await app.wait(first, timeout=10)
        await app.wait(rest[-1], timeout=10)

    assert [receipt.outcome.value for receipt in rest] == ["accepted", "merged"]
    assert rest[0].run_id == rest[1].run_id
    assert seen == ["first", "second\nthird"]


def test_joining_keeps_every_name_and_joins_only_texts() -> None:
    assert join([{"text": "a", "n": 1, "only": True}, {"text": "b", "n": [2]}]) == {
        "text": "a\nb",
        "n": [2],
        "only": True,
    }
    assert join([{"text": "a"}, {"text": None}]) == {"text": None}
    assert last([{"text": "a", "n": 1}, {"text": "b"}]) == {"text": "b"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge": "joined"}, "unknown merge 'joined', did you mean 'join'?"),
        ({"merge": 5}, "merge is 5; it must be 'join', 'last' or a function that takes a list of dicts"),
        ({"before_start": "no"}, "before_start is 'no'; it must be a function that takes (args, ctx)"),
    ],
)
def test_a_wrong_beginning_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Scheduler("memory://").task(**options)

    assert str(caught.value) == message


async def test_what_comes_while_a_debounced_run_is_executed_opens_a_new_window(
    app: Scheduler, clock: FakeClock
) -> None:
    answers = Answers(app)
    async with app.running():
        await answers.write(text="one")
        await clock.advance(0.8)
        await as_time_passes(clock, app.wait((await app.runs())[0]))
        outcome = await answers.write(text="two")
        await clock.advance(0.8)
        await as_time_passes(clock, app.wait((await app.runs())[0]))

    assert outcome is ReceiptOutcome.ACCEPTED
    assert [seen["text"] for seen in answers.seen] == ["one", "two"]


DEBOUNCED = SessionPolicy(debounce=1)


async def test_a_run_tried_again_by_hand_has_all_that_was_merged_into_it(app: Scheduler, clock: FakeClock) -> None:
    failing = True

    @app.task(retry=None)
    async def answer(text: str) -> str:
        if failing:
            raise ValueError("no")
        return text

    chat = answer.using(user="ann", session="chat", session_policy=DEBOUNCED)
    [first, *_] = [await chat.submit(text=text) for text in ("wait", "I meant", "cats")]
    await clock.advance(2)
    await app.drain()
    assert (await app.get(first)).state is RunState.FAILED
    failing = False

    again = await app.retry(first)
    twice = await app.retry(first)
    await app.drain()

    assert await app.result(again, timeout=1) == "wait\nI meant\ncats"
    assert await app.result(twice, timeout=1) == "wait\nI meant\ncats"
    assert await (await app.open()).check() == []
