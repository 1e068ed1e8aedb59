"""`before_start`: called once, just before a run's handler, to change the run or to refuse it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from laneway import Context, GiveUp, Retry, Scheduler, SessionPolicy
from laneway.core.records.run import Claimed
from laneway.core.records.states import RunState
from laneway.engine.attempts.prepare import Preparer
from laneway.engine.attempts.running_attempt import RunningAttempt, Stop
from laneway.engine.handlers.replay import Bounds
from laneway.settings import Settings
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of
from tests.support.waits import as_time_passes, eventually, soon, thread_between_looks, turns, until


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
        await asyncio.Event().wait()

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


async def _for_ever(args: dict[str, Any], ctx: Context) -> None:
    await asyncio.Event().wait()


async def _deaf(args: dict[str, Any], ctx: Context) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


async def _sore(args: dict[str, Any], ctx: Context) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise ConnectionError("lost on the way out")


def _blocking(args: dict[str, Any], ctx: Context) -> None:
    while not ctx.cancelled:
        thread_between_looks()


@pytest.mark.parametrize("hook", [_for_ever, _deaf, _sore, _blocking])
async def test_one_that_outlasts_the_time_out_has_refused_the_run_and_is_not_called_again(
    app: Scheduler, clock: FakeClock, hook: Callable[..., Any]
) -> None:
    called, handled = [], []

    def counting(args: dict[str, Any], ctx: Context) -> Any:
        called.append(ctx.attempt)
        return hook(args, ctx)

    async def counting_too(args: dict[str, Any], ctx: Context) -> Any:
        return await counting(args, ctx)

    is_plain = hook is _blocking

    @app.task(timeout=30, retry=Retry.delays(0, 0), before_start=counting if is_plain else counting_too)
    async def answer() -> None:
        handled.append(1)

    receipt = await answer.submit()
    async with app.running():
        run = await as_time_passes(clock, app.wait(receipt))

    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "refused", 1)
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("TimeoutError", "before_start took longer than 30 s")
    assert (called, handled) == ([1], [])


async def test_a_time_out_of_the_handler_is_tried_again_without_the_hook(app: Scheduler, clock: FakeClock) -> None:
    called = []

    @app.task(timeout=30, retry=Retry.delays(0), before_start=lambda *_: called.append(1))
    async def answer(ctx: Context) -> str:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return "done"

    receipt = await answer.submit()
    async with app.running():
        result = await as_time_passes(clock, app.result(receipt))

    assert (result, called) == ("done", [1])


async def test_it_is_called_again_if_its_worker_was_stopped_before_it_had_its_say(app: Scheduler) -> None:
    begun, called = asyncio.Event(), []

    async def hook(args: dict[str, Any], ctx: Context) -> None:
        called.append(ctx.attempt)
        begun.set()
        if len(called) == 1:
            await asyncio.Event().wait()

    @app.task(before_start=hook)
    async def answer() -> str:
        return "done"

    receipt = await answer.submit()
    async with app.running():
        await soon(begun.wait())
        await app.stop(0)
    run = await app.get(receipt)
    await app.drain()

    assert run.state is RunState.PENDING
    assert (await app.result(receipt), called) == ("done", [1, 1])


async def test_a_run_whose_time_is_over_before_it_has_begun_does_not_meet_the_hook(app: Scheduler) -> None:
    called: list[int] = []
    task = app.task(name="answer", before_start=lambda *_: called.append(1))(lambda: None)
    run = Claimed(1, "a", "answer", "{}", 1, 1, 0, "main", None, None, 0, "w")
    execution = RunningAttempt(run, task, task.policy, stopped=Stop.TIMED_OUT)
    preparing = Preparer(_nobody, _nobody, Bounds.of(Settings()), _nobody, _nobody, _nobody, 1000)

    with pytest.raises(asyncio.CancelledError):
        await preparing.prepare(execution)

    assert called == []


def _nobody(*_: object) -> Any:
    raise AssertionError("nobody is asked")


def _leave(*_: object) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("where", ["merge", "async before_start", "plain before_start"])
async def test_an_exit_in_what_comes_before_the_handler_does_not_end_the_worker(app: Scheduler, where: str) -> None:
    async def leave(*_: object) -> None:
        _leave()

    options: dict[str, dict[str, Any]] = {
        "merge": {"merge": _leave},
        "async before_start": {"before_start": leave},
        "plain before_start": {"before_start": _leave},
    }

    @app.task(**options[where])
    async def answer(text: str) -> str:
        return text

    @app.task
    async def other() -> str:
        return "done"

    policy = SessionPolicy(mode="collect")
    first = await answer.using(session="chat", session_policy=policy).submit(text="a")
    await answer.using(session="chat", session_policy=policy).submit(text="b")
    await soon(app.drain())
    second = await other.using(session="chat").submit()
    await soon(app.drain())

    run = await app.get(first)
    assert (run.state, run.reason) == (RunState.FAILED, "bad_merge" if where == "merge" else "refused")
    assert await app.result(second, timeout=1) == "done"


async def test_a_plain_before_start_may_raise_anything(app: Scheduler) -> None:
    def nothing_left(args: dict[str, Any], ctx: Context) -> None:
        next(iter(()))

    @app.task(before_start=nothing_left)
    async def answer(text: str) -> str:
        return text

    receipt = await answer.submit(text="a")
    await soon(app.drain())

    run = await app.get(receipt)
    assert (run.state, run.reason) == (RunState.FAILED, "refused")


async def test_a_run_has_not_stopped_before_its_plain_before_start_has(app: Scheduler) -> None:
    begun, may_end, over = threading.Event(), threading.Event(), threading.Event()

    def load(args: dict[str, Any], ctx: Context) -> None:
        begun.set()
        may_end.wait(10)
        over.set()

    @app.task(before_start=load)
    async def answer(text: str) -> str:
        return text

    async with app.running():
        receipt = await answer.using(session="chat").submit(text="a")
        await until(begun.is_set)
        await app.sessions.stop("chat")
        await eventually(lambda: kinds_of(app, receipt), lambda kinds: "cancel_delivered" in kinds)
        await turns()
        before = (await app.get(receipt)).state
        may_end.set()
        after = await app.wait(receipt, timeout=10)

    assert over.is_set()
    assert (before, after.state) == (RunState.RUNNING, RunState.CANCELLED)
