"""Scripts of steps."""

from __future__ import annotations

import asyncio
from typing import Any

from laneway import Context, Snooze
from tests.support.scripts.runner import Script, add
from tests.support.waits import thread_between_looks, turns


def steps(ctx: Context, folder: str) -> Script:
    first = yield ctx.step("first", add, folder, "first")
    second = yield ctx.step("second", add, folder, what="second")
    return [first, second]


def fails_between(ctx: Context, folder: str) -> Script:
    first = yield ctx.step("first", add, folder, "first")
    if ctx.attempt < 3:
        raise ValueError("not yet")
    second = yield ctx.step("second", add, folder, "second")
    return [first, second, ctx.attempt]


def fails_inside(ctx: Context, folder: str) -> Script:
    def inside() -> int:
        if add(folder, "inside") < 3:
            raise ValueError("not yet")
        return 3

    return (yield ctx.step("inside", inside))


def snoozes_between(ctx: Context, folder: str) -> Script:
    first = yield ctx.step("first", add, folder, "first")
    if ctx.fence == 1:
        raise Snooze(0)
    return [first, (yield ctx.step("second", add, folder, "second"))]


def shapes(ctx: Context, folder: str) -> Script:
    values = yield ctx.step("values", lambda: {"pair": (1, 2), "nothing": None})
    nothing = yield ctx.step("nothing", lambda: None)
    if ctx.attempt == 1:
        raise ValueError([values, nothing])
    return [values, nothing]


def tokens(ctx: Context, folder: str) -> Script:
    def token() -> str:
        text = f"token {ctx.step_token}"
        if add(folder, text) < 2:
            raise ValueError("once more")
        return ctx.step_token

    first = yield ctx.step("first", token)
    second = yield ctx.step("second", token)
    return [first, second]


def token_outside(ctx: Context, folder: str) -> Script:
    yield ctx.step("first", lambda: None)
    return ctx.step_token


def not_json(ctx: Context, folder: str) -> Script:
    yield ctx.step("first", lambda: float("nan"))


def too_large(ctx: Context, folder: str) -> Script:
    yield ctx.step("first", lambda: "x" * 2_000_000)


def twice(ctx: Context, folder: str) -> Script:
    yield ctx.step("first", add, folder, "first")
    yield ctx.step("first", add, folder, "again")


def nameless(ctx: Context, folder: str) -> Script:
    yield ctx.step("", add, folder, "first")


def stop_iteration(ctx: Context, folder: str) -> Script:
    try:
        yield ctx.step("first", lambda: next(iter([])))
    except Exception as error:  # noqa: BLE001
        return type(error).__name__


def reordered(ctx: Context, folder: str) -> Script:
    names = ["a", "b", "c"] if ctx.attempt == 1 else ["c", "new", "a", "b"]
    values = {}
    for name in names:
        values[name] = yield ctx.step(name, add, folder, name)
    if ctx.attempt == 1:
        raise ValueError("in another order, please")
    return values


def flaky(ctx: Context, folder: str) -> Script:
    first = yield ctx.step("first", add, folder, "first")
    if add(folder, "tries") < 3:
        raise ConnectionError("busy")
    return [first, (yield ctx.step("second", add, folder, "second"))]


def pauses(ctx: Context, folder: str) -> Script:
    first = yield ctx.step("first", add, folder, "first")
    for turn in range(900 if ctx.fence == 1 else 0):
        yield ctx.step(f"turn {turn}", thread_between_looks)
    return [first, ctx.fence]


async def beside(folder: str, how: str, *, ctx: Context) -> list[Any]:
    """Take a slow step beside a branch that asks, or fails."""

    async def slowly() -> int:
        await turns(200)
        return add(folder, "slow")

    async def branch() -> Any:
        if how == "asks":
            return await ctx.ask("Really?")
        if add(folder, "fails") == 1:
            raise ConnectionError("busy")
        return "yes"

    return list(await asyncio.gather(ctx.step("slow", slowly), branch()))
