"""`before_start`: called once, just before a run's handler, to change the run or to refuse it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from laneway import Context, GiveUp, Retry, Scheduler
from laneway.core.states import RunState
from tests.engine.support import kinds_of, soon


async def test_it_may_change_the_arguments(app: Scheduler) -> None:
    async def hook(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return {**args, "text": f"{ctx.user}: {args['text']}"}

    @app.task(before_start=hook)
    async def answer(text: str) -> str:
        return text

    receipt = await answer.using(user="ann").submit(text="hello")
    await app.drain()

    assert await app.result(receipt) == "ann: hello"


async def test_a_plain_one_that_returns_nothing_changes_nothing(app: Scheduler) -> None:
    called = []

    @app.task(before_start=lambda args, _: called.append(args))
    def answer(text: str) -> str:
        return text

    receipt = await answer.submit(text="hello")
    await app.drain()

    assert await app.result(receipt) == "hello"
    assert called == [{"text": "hello"}]


async def test_it_is_called_once_however_often_the_run_is_tried(app: Scheduler) -> None:
    called, seen = [], []

    async def hook(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
        called.append(ctx.attempt)
        return {"text": "changed"}

    @app.task(before_start=hook, retry=Retry.delays(0, 0))
    async def answer(text: str) -> None:
        seen.append(text)
        if len(seen) < 3:
            raise ConnectionError("busy")

    await answer.submit(text="hello")
    await app.drain()

    assert called == [1]
    assert seen == ["changed"] * 3


async def test_it_is_called_after_the_run_before_it_in_its_session_has_ended(app: Scheduler) -> None:
    story: list[str] = []

    async def hook(args: dict[str, Any], ctx: Context) -> None:
        story.append(f"before {args['n']}")

    @app.task(before_start=hook)
    async def answer(n: int) -> None:
        story.append(f"begin {n}")
        await asyncio.sleep(0)
        story.append(f"end {n}")

    for n in range(3):
        await answer.using(session="chat").submit(n=n)
    await app.drain()

    assert story == [f"{what} {n}" for n in range(3) for what in ("before", "begin", "end")]


def _refuse(args: dict[str, Any], ctx: Context) -> None:
    raise PermissionError("not on Sundays")


def _give_up(args: dict[str, Any], ctx: Context) -> None:
    raise GiveUp("no")


@pytest.mark.parametrize(
    ("hook", "reason", "message"),
    [
        (_refuse, "refused", "not on Sundays"),
        (_give_up, "refused", "no"),
        (lambda *_: 5, "refused", "before_start returned 5; it must return the arguments, a dict, or None"),
        (lambda *_: {"txt": "x"}, "bad_arguments", "first has no argument 'txt', did you mean 'text'?"),
        (lambda *_: {"text": {1}}, "bad_arguments", None),
        (lambda: None, "refused", None),
    ],
    ids=["raises", "gives up", "nonsense", "misfit", "not JSON", "no parameters"],
)
async def test_its_error_is_the_runs_outcome_and_the_next_of_the_session_goes_on(
    app: Scheduler, hook: Callable[..., Any], reason: str, message: str | None
) -> None:
    called = []

    @app.task(name="first", before_start=hook)
    async def answer(text: str) -> None:
        called.append(text)

    @app.task(name="second")
    async def other(text: str) -> None:
        called.append(text)

    await answer.using(session="chat").submit(text="1")
    await other.using(session="chat").submit(text="2")
    await app.drain()

    second, first = await app.runs()
    assert first.error is not None
    assert (first.state, first.reason, first.attempt) == (RunState.FAILED, reason, 1)
    assert message is None or first.error.message == message
    assert (await kinds_of(app, first.id))[-1] == "done"
    assert second.state is RunState.SUCCEEDED
    assert called == ["2"]


async def test_a_cancel_during_the_hook_keeps_the_handler_from_being_called(app: Scheduler) -> None:
    begun, called = asyncio.Event(), []

    async def hook(args: dict[str, Any], ctx: Context) -> None:
        begun.set()
        await asyncio.sleep(3600)

    @app.task(before_start=hook)
    async def answer() -> None:
        called.append(1)

    async with app.running():
        receipt = await answer.submit()
        await soon(begun.wait())
        await app.cancel(receipt)
        run = await soon(app.wait(receipt))

    assert run.state is RunState.CANCELLED
    assert called == []


async def test_a_run_that_was_cancelled_before_it_started_never_meets_the_hook(app: Scheduler) -> None:
    called = []

    @app.task(before_start=lambda *_: called.append(1))
    async def answer() -> None: ...

    await app.cancel(await answer.submit())
    await app.drain()

    assert called == []
