"""Steps that go on beside a handler that has ended: an attempt is not over before they are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from laneway import Context, Scheduler
from laneway.core.records.events import STEPS_CHANGED
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.support.run_logs import kinds_of
from tests.support.scripts import steps as scripts
from tests.support.scripts.runner import AT_ONCE, Effects
from tests.support.waits import as_time_passes, in_state, soon, turns


@pytest.mark.parametrize("process", [False, True], ids=["loop", "process"])
@pytest.mark.parametrize("transient", [(), ConnectionError], ids=["", "transient"])
@pytest.mark.parametrize("how", ["asks", "fails"])
async def test_a_step_beside_what_unwinds_the_handler_is_kept_all_the_same(
    tmp_path: Path, how: str, transient: Any, process: bool
) -> None:
    async with Scheduler("memory://") as app:
        app.task(name="work", process=process, transient=transient, transient_wait=0, retry=AT_ONCE)(scripts.beside)
        receipt = await app.submit("work", {"folder": str(tmp_path), "how": how})
        await soon(app.drain())
        if how == "asks":
            await app.answer(receipt, "yes")
            await soon(app.drain())
        result = await app.result(receipt)

    assert result == [1, "yes"]
    assert Effects(tmp_path).counts()["slow"] == 1


async def test_a_branch_that_has_taken_its_step_may_still_ask_and_takes_no_more(app: Scheduler) -> None:
    taken: list[str] = []

    async def take(name: str) -> None:
        taken.append(name)
        await turns()

    @app.task
    async def work(*, ctx: Context) -> list[Any]:
        async def asks() -> Any:
            await ctx.step("a", take, "a")
            return await ctx.ask("a?", name="a")

        async def goes_on() -> None:
            await ctx.step("b", take, "b")
            await ctx.step("c", take, "c")

        return list(await asyncio.gather(ctx.ask("d?", name="d"), asks(), goes_on()))

    receipt = await work.submit()
    await soon(app.drain())
    waiting, first = await app.get(receipt), list(taken)
    for name in "da":
        await app.answer(receipt, name, name=name)
        await soon(app.drain())

    assert waiting.wait is not None
    assert {question.name for question in waiting.wait.questions} == {"a", "d"}
    assert sorted(first) == ["a", "b"]
    assert await app.result(receipt) == ["d", "a", None]
    assert sorted(taken) == ["a", "b", "c"]


@pytest.mark.parametrize("early", [False, True])
async def test_a_cancel_reaches_a_step_that_goes_on_beside_its_handler(app: Scheduler, early: bool) -> None:
    began, unwound, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def for_ever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.task
    async def work(*, ctx: Context) -> None:
        beside = asyncio.create_task(ctx.step("for ever", for_ever))
        await began.wait()
        unwound.set()
        if early:
            await asyncio.Event().wait()
        assert not beside.done()
        await ctx.ask("Really?")

    async with app.running():
        receipt = await work.submit()
        await soon(unwound.wait())
        await app.cancel(receipt)
        run = await soon(app.wait(receipt))

    assert run.state is RunState.CANCELLED
    assert stopped.is_set()


async def test_a_step_that_takes_too_long_beside_a_question_fails_the_attempt(app: Scheduler, clock: FakeClock) -> None:
    began = asyncio.Event()

    async def for_ever() -> None:
        began.set()
        await asyncio.Event().wait()

    @app.task(timeout=10, retry=None)
    async def work(*, ctx: Context) -> None:
        await asyncio.gather(ctx.ask("Really?"), ctx.step("for ever", for_ever))

    async with app.running():
        receipt = await work.submit()
        await soon(began.wait())
        run = await as_time_passes(clock, app.wait(receipt))

    assert (run.state, run.reason) == (RunState.FAILED, "timed_out")


async def test_a_cancel_that_comes_while_a_quick_try_waits_for_a_step_leaves_no_next_try(app: Scheduler) -> None:
    failing, tries = asyncio.Event(), list[int]()

    @app.task(transient=ConnectionError, transient_wait=0)
    async def work(*, ctx: Context) -> None:
        tries.append(ctx.fence)

        async def fails() -> None:
            failing.set()
            raise ConnectionError

        await asyncio.gather(ctx.step("for ever", asyncio.Event().wait), fails())

    async with app.running():
        receipt = await work.submit()
        await soon(failing.wait())
        await turns()
        await app.cancel(receipt)
        run = await soon(app.wait(receipt))

    assert run.state is RunState.CANCELLED
    assert tries == [1]


@pytest.mark.parametrize("then", ["resume", "cancel"])
async def test_a_pause_lets_the_steps_end_that_have_begun(app: Scheduler, then: str) -> None:
    began, may_pause, may_end, taken = asyncio.Event(), asyncio.Event(), asyncio.Event(), list[int]()

    async def slowly(fence: int) -> None:
        began.set()
        await may_end.wait()
        taken.append(fence)

    @app.task
    async def work(*, ctx: Context) -> None:
        await asyncio.gather(ctx.step("quick", may_pause.wait), ctx.step("slow", slowly, ctx.fence))

    async with app.running():
        receipt = await work.submit()
        await soon(began.wait())
        await app.pause(receipt)
        may_pause.set()
        await turns()
        if then == "cancel":
            await app.cancel(receipt)
        else:
            may_end.set()
            await in_state(app, receipt, RunState.PAUSED)
            await app.resume(receipt)
        run = await soon(app.wait(receipt))

    assert (run.state, taken) == ((RunState.CANCELLED, []) if then == "cancel" else (RunState.SUCCEEDED, [1]))


async def test_branches_that_get_on_at_another_pace_have_not_changed_their_order(app: Scheduler) -> None:
    async def take() -> None:
        await asyncio.sleep(0)

    @app.task(retry=AT_ONCE)
    async def work(*, ctx: Context) -> None:
        async def branch(name: str) -> None:
            for nth in range(ctx.attempt + 1):
                await ctx.step(f"{name} {nth}", take)

        await ctx.step("before", take)
        await asyncio.gather(branch("a"), branch("b"))
        await ctx.step("behind", take)
        if ctx.attempt < 3:
            raise ValueError

    receipt = await work.submit()
    await soon(app.drain())

    assert (await app.get(receipt)).attempt == 3
    assert STEPS_CHANGED not in await kinds_of(app, receipt)
