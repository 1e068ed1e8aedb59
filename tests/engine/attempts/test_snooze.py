"""Snooze and GiveUp: what a handler may raise to say what shall become of its run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from laneway import Context, GiveUp, RunFailed, Scheduler, Snooze
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.children import handlers as child_handlers
from tests.support.run_logs import kinds_of
from tests.support.waits import as_time_passes, soon


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
@pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])
async def test_a_snoozed_run_is_started_again_after_the_delay_and_nothing_is_charged(
    app: Scheduler, clock: FakeClock, plain: bool, delay: Any
) -> None:
    at: list[float] = []

    def call(ctx: Context) -> int:
        at.append(clock.monotonic())
        if len(at) < 3:
            raise Snooze(delay)
        return ctx.attempt

    async def on_loop(*, ctx: Context) -> int:
        return call(ctx)

    def in_thread(*, ctx: Context) -> int:
        return call(ctx)

    task = app.task(name="work", retry=None)(in_thread if plain else on_loop)
    receipt = await app.submit(task)
    async with app.running():
        assert await as_time_passes(clock, app.result(receipt), step=1) == 1

    assert at[1] - at[0] >= 60
    assert at[2] - at[1] >= 60
    assert await kinds_of(app, receipt) == ["started", "snoozed"] * 2 + ["started", "result", "done"]


async def test_while_it_is_snoozed_a_run_is_pending_and_can_be_cancelled(app: Scheduler) -> None:
    @app.task
    async def work() -> None:
        raise Snooze(3600)

    receipt = await work.submit()
    assert await app.drain() == {"snooze": 1}
    snoozed = await app.get(receipt)
    run = await app.cancel(receipt)

    assert (snoozed.state, snoozed.attempt, snoozed.fence) == (RunState.PENDING, 1, 1)
    assert (snoozed.due_at - snoozed.accepted_at).total_seconds() >= 3600
    assert run.state is RunState.CANCELLED


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "soon", None, True])
async def test_a_delay_that_is_none_fails_the_run_and_says_so(app: Scheduler, delay: Any) -> None:
    @app.task
    async def work() -> None:
        raise Snooze(delay)

    receipt = await work.submit()
    await soon(app.drain())

    run = await app.get(receipt)
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "gave_up", 1)
    assert run.error is not None
    assert run.error.message.startswith("the delay of Snooze is ")


@pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])
async def test_a_handler_that_gives_up_is_not_tried_again(app: Scheduler, plain: bool) -> None:
    async def on_loop() -> None:
        raise GiveUp("the page is gone")

    def in_thread() -> None:
        raise GiveUp("the page is gone")

    task = app.task(name="work", retry=5)(in_thread if plain else on_loop)
    receipt = await app.submit(task)
    await soon(app.drain())

    with pytest.raises(RunFailed, match="gave_up: the page is gone"):
        await app.result(receipt)
    assert await kinds_of(app, receipt) == ["started", "error", "done"]


async def test_snooze_and_give_up_come_out_of_a_child_process(app: Scheduler) -> None:
    tasks = [app.task(process=True)(handler) for handler in (child_handlers.snooze, child_handlers.give_up)]
    snoozed, given_up = [await app.submit(task) for task in tasks]

    assert await soon(app.drain()) == {"snooze": 1, "fail": 1}

    assert (await app.get(snoozed)).state is RunState.PENDING
    assert (await app.get(given_up)).reason == "gave_up"
