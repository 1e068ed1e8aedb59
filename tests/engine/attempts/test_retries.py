"""Retries: after a failure the run waits as its policy says, and is charged an attempt."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from laneway import Context, Retry, RunFailed, Scheduler
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of, log_of
from tests.support.waits import as_time_passes, soon


async def test_a_failed_attempt_is_tried_again_after_its_delay_and_not_before(app: Scheduler, clock: FakeClock) -> None:
    attempts = []

    @app.task(retry=Retry.delays(60, 240))
    async def work(*, ctx: Context) -> str:
        attempts.append((ctx.attempt, ctx.fence))
        if ctx.attempt < 3:
            raise ValueError(f"attempt {ctx.attempt}")
        return "at last"

    async with app.running():
        receipt = await work.submit()
        value = await as_time_passes(clock, app.result(receipt), step=1)

    # A store may need real time, in which this clock runs on: when an attempt starts at the latest says nothing here.
    log = await log_of(app, receipt)
    started = [event.at for event in log if event.kind == "started"]
    retrying = [(event.at, event.data["delay"]) for event in log if event.kind == "retrying"]
    assert value == "at last"
    assert attempts == [(1, 1), (2, 2), (3, 3)]
    assert [delay for _, delay in retrying] == [60, 240]
    assert all(start - at >= timedelta(seconds=delay) for start, (at, delay) in zip(started[1:], retrying, strict=True))


async def test_a_retry_starts_on_time(memory: Store, clock: FakeClock) -> None:
    app = Scheduler(store=memory, clock=clock)
    attempts = []

    @app.task(retry=Retry.delays(60, 240))
    async def work() -> None:
        attempts.append(clock.monotonic())
        raise ValueError("no")

    async with app.running():
        await work.submit()
        await clock.advance(1000)

    assert attempts == [0, 60, 300]


async def test_between_attempts_a_run_is_pending_with_its_last_error(app: Scheduler, clock: FakeClock) -> None:
    @app.task(retry=Retry.delays(60))
    async def work() -> None:
        raise ValueError("not yet")

    receipt = await work.submit()
    await app.drain()

    run = await app.get(receipt)
    assert (run.state, run.attempt, run.fence, run.worker) == (RunState.PENDING, 2, 1, None)
    assert run.due_at - run.accepted_at == timedelta(seconds=60)
    assert run.error is not None
    assert run.error.message == "not yet"
    assert await kinds_of(app, receipt) == ["started", "retrying"]


async def test_the_log_tells_of_every_attempt(app: Scheduler, clock: FakeClock) -> None:
    @app.task(retry=Retry(attempts=2, base=5, jitter=0))
    async def work(*, ctx: Context) -> None:
        raise ValueError(f"attempt {ctx.attempt}")

    receipt = await work.submit()
    async with app.running():
        with pytest.raises(RunFailed):
            await as_time_passes(clock, app.result(receipt))

    log = await log_of(app, receipt)
    assert [(event.seq, event.kind, event.attempt) for event in log] == [
        (1, "started", 1),
        (2, "retrying", 1),
        (3, "started", 2),
        (4, "error", 2),
        (5, "done", 2),
    ]
    failure = {"kind": "error", "type": "ValueError", "message": "attempt 1"}
    assert log[1].data == {"attempt": 2, "delay": 5.0, "error": failure}
    assert log[3].data == {"kind": "error", "type": "ValueError", "message": "attempt 2"}
    assert log[4].data == {"state": "failed"}


async def test_when_attempts_are_used_up_the_run_fails(app: Scheduler, clock: FakeClock) -> None:
    calls = []

    @app.task(retry=3)
    def work() -> None:
        calls.append(1)
        raise ValueError("never")

    receipt = await work.submit()
    async with app.running():
        run = await as_time_passes(clock, app.wait(receipt))

    assert (run.state, run.attempt, run.reason) == (RunState.FAILED, 3, "error")
    assert len(calls) == 3


async def test_a_retry_keeps_its_session_place(app: Scheduler, clock: FakeClock) -> None:
    order = []

    @app.task(retry=Retry.delays(10))
    async def work(n: int, *, ctx: Context) -> None:
        order.append((n, ctx.attempt))
        if (n, ctx.attempt) == (1, 1):
            raise ValueError("not yet")

    first = await work.using(session="chat").submit(n=1)
    second = await work.using(session="chat").submit(n=2)
    async with app.running():
        await as_time_passes(clock, asyncio.gather(app.wait(first), app.wait(second)))

    assert order == [(1, 1), (1, 2), (2, 1)]


async def test_a_waiting_retry_takes_no_slot(app: Scheduler) -> None:
    @app.task(retry=Retry.delays(3600))
    async def fail() -> None:
        raise ValueError

    @app.task
    async def work() -> str:
        return "done"

    await fail.submit()
    async with app.running(concurrency=1):
        receipt = await work.submit()

        assert await soon(app.result(receipt)) == "done"
