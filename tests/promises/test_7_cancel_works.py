"""Promise 7. Cancel works: in every stage, also while no worker is up, and the caller can see how far it got."""

from __future__ import annotations

import asyncio

import pytest

from laneway import Context, Retry, RunCancelled, Scheduler


async def kinds(app: Scheduler, run: str) -> list[str]:
    return [event.kind async for event in app.events(run)]


async def test_what_nobody_executes_ends_at_once_without_a_worker(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    pending = await app.submit(work)
    future = await app.submit(work, delay=3600)
    behind = [await app.submit(work, session="s") for _ in range(2)]
    paused = await app.submit(work)
    await app.pause(paused)

    for receipt in (pending, future, *behind, paused):
        run = await app.cancel(receipt)
        assert (run.state, run.fence) == ("cancelled", 0)
        assert (await kinds(app, run.id))[-2:] == ["cancel_requested", "done"]
    assert await app.drain() == {}
    with pytest.raises(RunCancelled):
        await app.result(pending)


async def test_between_attempts_it_is_not_tried_again(app: Scheduler) -> None:
    @app.task(retry=Retry.delays(3600))
    async def work() -> None:
        raise ValueError("once")

    receipt = await work.submit()
    await app.drain()

    run = await app.cancel(receipt)

    assert (run.state, run.attempt) == ("cancelled", 2)
    assert await kinds(app, run.id) == ["started", "retrying", "cancel_requested", "done"]


async def test_a_running_handler_is_stopped_and_the_caller_sees_how_far_it_got(app: Scheduler) -> None:
    started, cleaned_up = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(*, ctx: Context) -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            assert ctx.cancelled
            cleaned_up.set()

    async with app.running():
        receipt = await work.submit()
        await started.wait()
        asked = await app.cancel(receipt)
        run = await app.wait(receipt, timeout=20)

    assert (asked.state, asked.request) == ("running", "cancel")
    assert (run.state, cleaned_up.is_set()) == ("cancelled", True)
    log = [event async for event in app.events(receipt)]
    assert [event.kind for event in log] == ["started", "cancel_requested", "cancel_delivered", "stopped", "done"]
    assert [event.at for event in log] == sorted(event.at for event in log)


async def test_all_that_fit_are_cancelled_and_counted_exactly(app: Scheduler) -> None:
    @app.task
    async def work(user: str) -> str:
        return user

    ended = await work.submit(user="ann")
    await app.drain()
    for user in ("ann", "ann", "bob"):
        await work.using(user=user).submit(user=user)

    assert await app.cancel_where(state="pending", user="ann") == 2
    assert await app.cancel_where(task="work", user="ann") == 0
    assert (await app.get(ended)).state == "succeeded"
    assert await app.drain() == {"succeed": 1}


async def test_a_run_that_waits_ends_at_once_and_so_does_all_that_it_has_called(app: Scheduler) -> None:
    @app.task
    async def ask(*, ctx: Context) -> None:
        await ctx.ask("go on?")

    @app.task
    async def call(task: str, *, ctx: Context) -> None:
        ctx.submit(ask)
        await ctx.call(task, {"task": "ask"} if task == "call" else {})

    receipt = await app.submit(call, {"task": "call"}, session="chat")
    await app.drain()

    run = await app.cancel(receipt)

    others = [other for other in await app.runs() if other.id != run.id]
    assert (run.state, await kinds(app, run.id)) == ("cancelled", ["started", "called", "cancel_requested", "done"])
    assert [(other.task, other.state, other.reason) for other in others] == [
        ("ask", "cancelled", "parent_ended"),
        ("call", "cancelled", "parent_ended"),
    ]
    assert await app.drain() == {}
