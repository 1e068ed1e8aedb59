"""Answers: the first one in time wins, and whoever waits for one holds nothing and can be stopped meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway import BadArguments, Context, NotWaiting, Scheduler
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of
from tests.support.waits import in_state, soon, turns
from tests.support.watched_store import WatchedStore


@pytest.fixture
def asking(app: Scheduler) -> Scheduler:
    @app.task
    async def ask(*, ctx: Context) -> Any:
        return await ctx.ask("Really?", timeout=10)

    @app.task
    async def work() -> str:
        return "done"

    return app


async def test_an_answer_that_cannot_be_kept_changes_nothing(asking: Scheduler) -> None:
    receipt = await asking.submit("ask")
    await asking.drain()
    with pytest.raises(BadArguments, match="the answer is not JSON"):
        await asking.answer(receipt, object())
    with pytest.raises(BadArguments, match="the answer is not JSON: the value is bytes; JSON has only text"):
        await asking.answer(receipt, b"yes")
    with pytest.raises(BadArguments, match="the answer takes 2000002 bytes"):
        await asking.answer(receipt, "x" * 2_000_000)
    with pytest.raises(NotWaiting, match="waiting for the answer to '1', not 'colour'"):
        await asking.answer(receipt, "red", name="colour")

    assert (await asking.get(receipt)).state is RunState.WAITING
    assert await kinds_of(asking, receipt) == ["started", "question"]


async def test_only_a_run_that_waits_can_be_answered_and_only_once(asking: Scheduler) -> None:
    receipt = await asking.submit("ask")
    with pytest.raises(NotWaiting, match="it is pending"):
        await asking.answer(receipt, "too early")
    await asking.drain()
    await asking.answer(receipt, "first")
    with pytest.raises(NotWaiting, match="it is pending"):
        await asking.answer(receipt, "second")
    await asking.drain()
    with pytest.raises(NotWaiting, match="it is succeeded"):
        await asking.answer(receipt, "late")

    assert await asking.result(receipt) == "first"


async def test_a_waiting_run_holds_no_slot_of_its_worker(asking: Scheduler) -> None:
    async with asking.running(concurrency=1):
        receipt = await asking.submit("ask")
        await in_state(asking, receipt, RunState.WAITING)
        done = await soon(asking.result(await asking.submit("work")))
        await asking.answer(receipt, "yes")
        answered = await soon(asking.result(receipt))

    assert (done, answered) == ("done", "yes")


async def test_a_waiting_run_can_be_cancelled(asking: Scheduler) -> None:
    receipt = await asking.submit("ask")
    await asking.drain()
    run = await asking.cancel(receipt)
    with pytest.raises(NotWaiting, match="it is cancelled"):
        await asking.answer(receipt, "yes")

    assert run.state is RunState.CANCELLED
    assert await kinds_of(asking, receipt) == ["started", "question", "cancel_requested", "done"]


async def test_a_pause_that_came_before_the_question_takes_hold_after_the_answer(app: Scheduler) -> None:
    asks, may_ask = asyncio.Event(), asyncio.Event()

    @app.task
    async def ask(*, ctx: Context) -> Any:
        asks.set()
        await may_ask.wait()
        return await ctx.ask("Really?")

    async with app.running():
        receipt = await ask.submit()
        await soon(asks.wait())
        await app.pause(receipt)
        may_ask.set()
        await in_state(app, receipt, RunState.WAITING)
        paused = await app.answer(receipt, "yes")
        await app.resume(receipt)
        result = await soon(app.result(receipt))

    assert paused.state is RunState.PAUSED
    assert result == "yes"


# Time


async def test_a_question_that_nobody_answers_ends_its_run_and_the_worker_wakes_for_it(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    @lossy.task
    async def ask(*, ctx: Context) -> Any:
        return await ctx.ask("Really?", timeout=7200)

    async with lossy.running():
        receipt = await ask.submit()
        await in_state(lossy, receipt, RunState.WAITING)
        await turns()
        watched.calls.clear()
        await clock.advance(7199.999)
        asked = watched.calls["step"]
        before = await lossy.get(receipt)
        await clock.advance(0.001)
        run = await soon(lossy.wait(receipt))

    assert asked == 0
    assert before.state is RunState.WAITING
    assert (run.state, run.reason) == (RunState.CANCELLED, "unanswered")
    assert (await kinds_of(lossy, receipt))[-2:] == ["unanswered", "done"]


async def test_an_answer_that_comes_too_late_ends_the_run_that_waited_for_it(
    asking: Scheduler, clock: FakeClock
) -> None:
    receipt = await asking.submit("ask")
    await asking.drain()
    await clock.advance(10)
    with pytest.raises(NotWaiting):
        await asking.answer(receipt, "yes")

    run = await asking.get(receipt)
    assert (run.state, run.reason) == (RunState.CANCELLED, "unanswered")
