"""What a worker's context holds reaches every kind of handler."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from laneway import Context, Scheduler
from laneway.engine.handlers.context import carried, current

request: ContextVar[str] = ContextVar("request", default="none")


def seen_in_child() -> dict[str, str]:
    return dict(carried.get())


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_context_variables_of_the_worker_reach_its_handlers(app: Scheduler, kind: str) -> None:
    async def on_the_loop(*, ctx: Context) -> list[str]:
        return [request.get(), current.get().run_id, ctx.run_id]

    def in_a_thread(*, ctx: Context) -> list[str]:
        return [request.get(), current.get().run_id, ctx.run_id]

    handler: Any = on_the_loop if kind == "async" else in_a_thread
    app.task(name="look")(handler)
    request.set("r-7")
    async with app.running():
        receipt = await app.submit("look")
        seen = await asyncio.wait_for(app.result(receipt), 5)

    assert seen == ["r-7", receipt.run_id, receipt.run_id]


async def test_what_is_to_be_carried_reaches_a_child_process(app: Scheduler) -> None:
    app.task(name="look", process=True)(seen_in_child)
    carried.set({"traceparent": "00-ab-cd-01"})
    async with app.running():
        seen = await asyncio.wait_for(app.result(await app.submit("look")), 20)

    assert seen == {"traceparent": "00-ab-cd-01"}
