"""A scheduler that is shut: it takes no new runs, and what was accepted goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway import BadSetting, Context, Retry, Scheduler
from laneway.core.records.states import RunState
from tests.support.waits import soon

WAYS: dict[str, Callable[[Scheduler], Awaitable[Any]]] = {
    "submit": lambda app: app.submit("work", {"n": 2}),
    "submit of a task": lambda app: app.tasks.get("work").submit(n=2),
    "submit with options": lambda app: app.tasks.get("work").using(user="ann", key="k").submit(n=2),
    "submit_many": lambda app: app.submit_many([("work", {"n": 2}), ("work", {"n": 3})]),
    "submit_many of none": lambda app: app.submit_many([]),
    "letter": lambda app: app.letter("work", {"n": 2}),
    "submit in a transaction": lambda app: app.submit("work", {"n": 2}, connection=object()),
    "sync.submit": lambda app: asyncio.to_thread(app.sync.submit, "work", {"n": 2}),
    "sync.submit_many": lambda app: asyncio.to_thread(app.sync.submit_many, [("work", {"n": 2})]),
}


@pytest.fixture
def working(app: Scheduler) -> Scheduler:
    @app.task
    async def work(n: int) -> int:
        return n

    return app


@pytest.mark.parametrize("way", WAYS)
async def test_it_takes_no_new_runs(working: Scheduler, way: str) -> None:
    first = await working.submit("work", {"n": 1})

    working.shut()

    with pytest.raises(BadSetting, match="this scheduler is shut: it takes no new runs"):
        await WAYS[way](working)
    assert [run.id for run in await working.runs()] == [first.run_id]


async def test_what_was_accepted_is_executed(working: Scheduler) -> None:
    receipts = [await working.submit("work", {"n": 1}), await working.submit("work", {"n": 2}, session="s")]

    working.shut()
    await working.drain()

    assert [await working.result(receipt) for receipt in receipts] == [1, 2]


async def test_what_is_running_goes_on_with_its_attempts_and_what_it_calls(working: Scheduler) -> None:
    begun, shut = asyncio.Event(), asyncio.Event()

    @working.task(retry=Retry.delays(0))
    async def parent(ctx: Context) -> Any:
        begun.set()
        await shut.wait()
        if ctx.attempt == 1:
            raise ConnectionError("busy")
        return await ctx.call("work", {"n": 5})

    receipt = await working.submit(parent, then=[("work", {"n": 6})])
    async with working.running():
        await soon(begun.wait())
        working.shut()
        shut.set()
        result = await soon(working.result(receipt))
    await working.drain()

    assert result == 5
    runs = await working.runs(task="work")
    assert [(run.args["n"], run.state) for run in runs] == [(6, RunState.SUCCEEDED), (5, RunState.SUCCEEDED)]


async def test_it_can_still_be_asked_and_told(working: Scheduler) -> None:
    receipt = await working.submit("work", {"n": 1})

    working.shut()
    await working.cancel(receipt)

    assert (await working.get(receipt)).state is RunState.CANCELLED


async def test_one_that_was_closed_takes_runs_again(working: Scheduler) -> None:
    working.shut()

    await working.aclose()

    assert (await working.submit("work", {"n": 1})).accepted
