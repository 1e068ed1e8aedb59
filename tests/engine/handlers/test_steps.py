"""Steps: what a handler has got done is kept, and not done again, however often it starts from its top."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from laneway import BadSetting, Context, Scheduler
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of, log_of
from tests.support.scripts import steps as scripts
from tests.support.scripts.runner import AT_ONCE, ScriptRunner
from tests.support.waits import in_state, soon, turns, until


async def test_a_step_returns_what_its_function_returned(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.steps)

    assert await runner.app.result(run_id) == [1, 1]
    assert runner.counts == {"first": 1, "second": 1}


async def test_a_kept_step_is_not_taken_again_when_the_run_is_tried_again(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.fails_between)

    assert await runner.app.result(run_id) == [1, 1, 3]
    assert runner.counts == {"first": 1, "second": 1}


async def test_a_kept_step_is_not_taken_again_after_a_snooze(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.snoozes_between)

    assert await runner.app.result(run_id) == [1, 1]


async def test_a_step_that_raises_is_not_kept(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.fails_inside)

    assert await runner.app.result(run_id) == 3
    assert runner.counts == {"inside": 3}


async def test_a_step_returns_the_same_json_when_it_is_taken_and_when_it_is_kept(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.shapes)

    same = [{"pair": [1, 2], "nothing": None}, None]
    events = await log_of(runner.app, run_id)
    [retrying] = [event.data["error"]["message"] for event in events if event.kind == "retrying"]
    assert retrying == str(same)
    assert await runner.app.result(run_id) == same


async def test_a_steps_token_is_the_same_at_each_try_and_another_for_each_step_and_run(runner: ScriptRunner) -> None:
    first, second = await runner.submit(scripts.tokens), await runner.submit(scripts.tokens)
    await runner.drain()

    tokens = [*await runner.app.result(first), *await runner.app.result(second)]
    assert len(set(tokens)) == 4
    assert runner.counts == {f"token {token}": 2 for token in tokens}


WRONG = {
    "token_outside": "ctx.step_token is there inside of a step: in the function that ctx.step calls",
    "not_json": "the result of step 'first' is not JSON: the value is nan, which JSON has no word for",
    "too_large": "the result of step 'first' takes 2000002 bytes as JSON; at most 1048576 are allowed",
    "twice": "step 'first' comes twice in one attempt; each needs a name of its own",
    "nameless": "the name of a step is text of 1 to 200 characters, not ''",
}


@pytest.mark.work(retry=None)
async def test_what_cannot_be_a_step_fails_the_run_and_says_why(runner: ScriptRunner) -> None:
    runs = {name: await runner.submit(getattr(scripts, name)) for name in WRONG}
    await runner.drain()

    assert {name: await runner.problem(run_id) for name, run_id in runs.items()} == WRONG
    assert runner.counts == {"first": 1}


async def test_whatever_a_steps_function_raises_comes_to_the_handler(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.stop_iteration)

    # A coroutine and a future cannot carry it; Python itself makes a RuntimeError of it there.
    assert await runner.app.result(run_id) in {"StopIteration", "RuntimeError"}


async def test_steps_in_another_order_are_found_by_name_and_reported(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.reordered)

    events = await log_of(runner.app, run_id)
    changed = [event.data for event in events if event.kind == "steps_changed"]
    assert await runner.app.result(run_id) == {"a": 1, "b": 1, "c": 1, "new": 1}
    assert changed == [{"step": "a", "was": 1, "now": 3}, {"step": "b", "was": 2, "now": 4}]
    assert runner.counts == {"a": 1, "b": 1, "c": 1, "new": 1}


@pytest.mark.work(transient=ConnectionError, transient_wait=0, retry=None)
async def test_quick_tries_keep_the_steps_of_the_tries_before(runner: ScriptRunner) -> None:
    run_id = await runner.run(scripts.flaky)

    assert await runner.app.result(run_id) == [1, 1]
    assert runner.counts == {"first": 1, "tries": 3, "second": 1}


async def test_a_requested_pause_takes_hold_at_a_step(runner: ScriptRunner) -> None:
    async with runner.app.running():
        run_id = await runner.submit(scripts.pauses)
        await until(lambda: bool(runner.counts["first"]))
        await runner.app.pause(run_id)
        await in_state(runner.app, run_id, RunState.PAUSED)
        await runner.app.resume(run_id)
        result = await soon(runner.app.result(run_id))

    assert result == [1, 2]
    assert runner.counts == {"first": 1}
    assert await kinds_of(runner.app, run_id) == [
        *("started", "pause_requested", "paused", "resumed", "started", "result", "done")
    ]


# On the loop


async def test_steps_may_be_taken_at_once(app: Scheduler) -> None:
    taken: list[int] = []

    async def take(n: int, *, ctx: Context) -> str:
        taken.append(n)
        await asyncio.sleep(0)
        return ctx.step_token

    @app.task(retry=AT_ONCE)
    async def work(*, ctx: Context) -> list[str]:
        tokens = await asyncio.gather(*[ctx.step(f"step {n}", take, n, ctx=ctx) for n in range(20)])
        if ctx.attempt == 1:
            raise ValueError
        return tokens

    receipt = await work.submit()
    await app.drain()

    assert len(set(await app.result(receipt))) == 20
    assert sorted(taken) == list(range(20))


async def test_a_kept_step_is_not_taken_again_when_its_worker_stopped(app: Scheduler) -> None:
    between, taken = asyncio.Event(), list[int]()

    async def take(fence: int) -> int:
        taken.append(fence)
        return fence

    @app.task
    async def work(*, ctx: Context) -> list[int]:
        first = await ctx.step("first", take, ctx.fence)
        if ctx.fence == 1:
            between.set()
            await asyncio.Event().wait()
        return [first, await ctx.step("second", take, ctx.fence)]

    receipt = await work.submit()
    async with app.running():
        await soon(between.wait())
        await app.stop(0)
    await app.drain()

    assert await app.result(receipt) == [1, 2]
    assert taken == [1, 2]


async def test_a_run_can_keep_a_thousand_steps_and_takes_no_more(app: Scheduler) -> None:
    taken: list[int] = []

    async def take(n: int) -> None:
        taken.append(n)

    @app.task(retry=None)
    async def work(*, ctx: Context) -> None:
        await asyncio.gather(*[ctx.step(f"step {n}", take, n) for n in range(1000)])
        await ctx.step("one more", take, 1000)

    receipt = await work.submit()
    await app.drain()

    run = await app.get(receipt)
    assert run.error is not None
    assert run.error.message == f"run {run.id} has kept 1000 results; a run can keep no more"
    assert len(taken) == 1000


async def test_a_plain_function_of_an_async_handler_is_called_in_a_thread(app: Scheduler) -> None:
    @app.task
    async def work(*, ctx: Context) -> list[bool]:
        plain = await ctx.step("plain", threading.get_ident) == threading.get_ident()

        async def name() -> int:
            return threading.get_ident()

        return [plain, await ctx.step("async", name) == threading.get_ident()]

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) == [False, True]


async def test_a_cancelled_handler_waits_for_the_thread_of_its_step(app: Scheduler) -> None:
    began, may_end, told = threading.Event(), threading.Event(), list[str]()

    def slowly() -> None:
        began.set()
        may_end.wait()
        told.append("step")

    @app.task
    async def work(*, ctx: Context) -> None:
        try:
            await ctx.step("slow", slowly)
        finally:
            told.append("handler")

    receipt = await work.submit()
    async with app.running():
        await until(began.is_set)
        await app.cancel(receipt)
        running = await app.get(receipt)
        may_end.set()
        run = await soon(app.wait(receipt))

    assert running.state is RunState.RUNNING
    assert run.state is RunState.CANCELLED
    assert told == ["step", "handler"]


async def test_a_step_whose_thread_ends_while_its_worker_stops_is_kept(app: Scheduler, clock: FakeClock) -> None:
    began, pulse, taken = threading.Event(), threading.Event(), list[int]()

    @app.task
    async def work(*, ctx: Context) -> int:
        def until_stopped() -> int:
            began.set()
            while not ctx.cancelled:
                pulse.wait(0.001)
            taken.append(ctx.fence)
            return ctx.fence

        return int(await ctx.step("slow", until_stopped))

    receipt = await work.submit()
    async with app.running():
        await until(began.is_set)
        stopping = asyncio.create_task(app.stop(1))
        await turns()
        await clock.advance(1)
        await soon(stopping)
    await app.drain()

    assert await app.result(receipt) == 1
    assert taken == [1]


async def test_a_step_inside_of_a_step_is_kept_of_its_own(app: Scheduler) -> None:
    taken: list[str] = []

    @app.task(retry=AT_ONCE)
    async def work(*, ctx: Context) -> list[Any]:
        async def inner() -> str:
            taken.append("inner")
            return ctx.step_token

        async def outer() -> list[Any]:
            taken.append("outer")
            before = ctx.step_token
            token = await ctx.step("inner", inner)
            if len(taken) < 3:
                raise ValueError
            return [before == ctx.step_token, token != before]

        return await ctx.step("outer", outer)  # type: ignore[no-any-return]  # what a step returns is any JSON

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) == [True, True]
    assert taken == ["outer", "inner", "outer"]


# In a plain handler


@pytest.mark.parametrize("lazily", [False, True])
async def test_an_async_function_cannot_be_a_step_of_a_plain_handler(app: Scheduler, lazily: bool) -> None:
    async def later() -> int:
        return 1

    def call(function: Callable[[], Any]) -> Any:
        return function()

    @app.task
    def work(*, ctx: Context) -> str:
        function = partial(call, later) if lazily else later
        with pytest.raises(BadSetting) as error:
            ctx.step("later", function)
        return str(error.value)

    receipt = await work.submit()
    await app.drain()

    said = await app.result(receipt)
    assert said == "step 'later': an async function needs an async handler to be awaited in"
