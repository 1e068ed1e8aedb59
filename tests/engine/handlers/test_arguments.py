"""Arguments on their way through a scheduler: what is refused leaves nothing, what is taken arrives as annotated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

from laneway import BadArguments, Context, Scheduler
from laneway.testing import FakeClock
from tests.support.arguments import NOON, Colour, Model, Point, deep, summarize

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers

LIMIT = 1000


async def test_what_is_refused_leaves_nothing_behind(app: Scheduler) -> None:
    app.task(summarize)

    for args in ({}, {"doc": 1}, {"dok": "1"}, {"doc": "x" * 300_000}, {"doc": "\udc00"}, {"doc": b"1"}):
        with pytest.raises(BadArguments):
            await app.submit("summarize", args)

    assert await app.runs() == []


async def test_converted_arguments_arrive_in_the_handler(app: Scheduler) -> None:
    seen: list[tuple[Any, ...]] = []

    @app.task
    def work(point: Point, when: datetime, colour: Colour = Colour.RED, *, who: Model | None = None) -> None:
        seen.append((point, when, colour, who and who.name))

    await work.submit(point=Point(1, 2), when=NOON, colour=Colour.BLUE, who={"name": "ann"})
    await work.submit(point={"x": 3}, when=NOON)
    await app.drain()

    assert sorted(seen, key=lambda row: row[0].x) == [
        (Point(1, 2), NOON, Colour.BLUE, "ann"),
        (Point(3), NOON, Colour.RED, None),
    ]


async def test_what_json_can_barely_hold_comes_back_as_it_went(app: Scheduler) -> None:
    odd = {"nul": "a\x00b", "big": 2**70, "small": 5e-324, "fox": "🦊", "": "", "quote": "\"'\\\u2028", "n": None}

    @app.task
    async def echo(value: dict[str, Any]) -> dict[str, Any]:
        return value

    receipt = await echo.submit(value=odd)
    await app.drain()

    run = await app.get(receipt)
    assert run.args == {"value": odd}
    assert run.result == odd


async def test_the_limits_are_settings(clock: FakeClock) -> None:
    app = Scheduler("memory://", clock=clock, args_limit=20, result_limit=9)

    @app.task(retry=None)
    async def echo(value: str) -> str:
        return value

    with pytest.raises(BadArguments) as caught:
        await echo.submit(value="0123456789")
    receipt = await echo.submit(value="01234567")
    await app.drain()

    assert str(caught.value) == "the arguments of echo take 22 bytes as JSON; at most 20 are allowed"
    assert (await app.get(receipt)).reason == "bad_result"


async def test_one_annotation_that_cannot_be_resolved_leaves_the_others_alone(app: Scheduler) -> None:
    # Annotations of this file are strings, and one of them can be resolved by a type checker only.
    async def work(price: OnlyForTypeCheckers, count: int, ctx: Context) -> str:
        return ctx.task

    task = app.task(work)

    assert task.parameters.context == "ctx"
    with pytest.raises(BadArguments):
        await task.submit(price="1.10", count="many")


async def test_an_optional_context_is_given_too(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(ctx: Optional[Context] = None) -> bool:  # noqa: UP045 - either spelling
        return ctx is not None

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) is True


async def test_a_context_with_a_note_is_given_too(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(ctx: Annotated[Context, "mine"]) -> str:
        return ctx.task

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) == "work"


async def test_a_partial_of_a_handler_is_given_its_context(app: Scheduler) -> None:
    async def work(n: int, step: int, ctx: Context) -> str:
        return f"{ctx.task} {n} {step}"

    task = app.task(name="work", retry=None)(partial(work, step=2))
    receipt = await task.submit(n=1)
    await app.drain()

    assert await app.result(receipt) == "work 1 2"


@dataclass
class Order:
    price: OnlyForTypeCheckers


async def test_a_class_with_a_field_that_cannot_be_resolved_takes_any_json(app: Scheduler) -> None:
    @app.task
    async def work(order: Order) -> Any:
        return order

    receipt = await work.submit(order={"price": "1.10"})
    await app.drain()

    assert await app.result(receipt) == {"price": "1.10"}


async def test_a_number_reaches_the_handler_as_its_annotation_says(app: Scheduler) -> None:
    @app.task
    async def work(share: float) -> str:
        return type(share).__name__

    receipt = await work.submit(share=1)
    await app.drain()

    assert await app.result(receipt) == "float"


async def test_what_is_nested_less_than_a_hundred_levels_deep_is_taken(app: Scheduler) -> None:
    @app.task
    async def work(value: Any) -> Any:
        return value

    receipt = await work.submit(value=deep(90))
    await app.drain()

    assert await app.result(receipt) == deep(90)


@pytest.mark.parametrize("levels", [100, 700])
async def test_what_is_nested_deeper_than_any_reader_can_follow_is_refused(app: Scheduler, levels: int) -> None:
    # Otherwise a run could be taken from a shallow stack that nobody can read from a deep one.
    @app.task
    async def work(value: Any) -> None: ...

    with pytest.raises(BadArguments) as caught:
        await work.submit(value=deep(levels))

    assert str(caught.value) == "the arguments of work are not JSON: it is nested more than 100 levels deep"
    assert await app.runs() == []


async def test_a_number_too_large_for_its_annotation_is_refused(app: Scheduler) -> None:
    @app.task
    async def work(share: float) -> None: ...

    with pytest.raises(BadArguments):
        await work.submit(share=10**400)
    assert await app.runs() == []
