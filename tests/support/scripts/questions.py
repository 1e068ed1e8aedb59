"""Scripts of questions."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from laneway import BadArguments, BadSetting, Context
from tests.support.scripts.runner import Script, add


def asks(ctx: Context, folder: str) -> Script:
    add(folder, "starts")
    return (yield ctx.ask("Really?"))


def asks_in_between(ctx: Context, folder: str) -> Script:
    before = yield ctx.step("before", add, folder, "before")
    answer = yield ctx.ask({"text": "Which?", "of": [1, 2]}, name="which", timeout=60)
    after = yield ctx.step("after", add, folder, "after")
    return [before, answer, after]


def asks_three(ctx: Context, folder: str) -> Script:
    first = yield ctx.ask("first")
    named = yield ctx.ask("second", name="named")
    third = yield ctx.ask("third")
    return [first, named, third]


def holds_on(ctx: Context, folder: str) -> Script:
    try:
        return (yield ctx.ask("Really?"))
    except Exception:  # noqa: BLE001  # what an agent's loop does around everything
        add(folder, "held")
    finally:
        add(folder, "finally")


def another_text(ctx: Context, folder: str) -> Script:
    return (yield ctx.ask(f"It is {ctx.fence} o'clock?"))


def another_text_by_name(ctx: Context, folder: str) -> Script:
    return (yield ctx.ask(f"It is {ctx.fence} o'clock?", name="clock"))


def wrong(ctx: Context, folder: str) -> Script:
    said = []
    for timeout in (0, -1, float("nan"), "soon", timedelta(days=-1)):
        try:
            yield ctx.ask("Really?", timeout=timeout)  # type: ignore[arg-type]  # that is the point
        except BadSetting as error:
            said.append(str(error).partition(";")[0])
    for question in (object(), "x" * 2_000_000):
        try:
            yield ctx.ask(question)
        except BadArguments as error:
            said.append(str(error).partition(":")[0].partition(";")[0])
    return said


def twice(ctx: Context, folder: str) -> Script:
    with suppress(BaseException):
        yield ctx.ask("Really?", name="same")
    yield ctx.ask("Yes, really?", name="same")


def swallows(ctx: Context, folder: str) -> Script:
    try:
        answer = yield ctx.ask("Really?")
    except BaseException:  # noqa: BLE001  # that is the point
        return "swallowed"
    return answer


def swallows_two(ctx: Context, folder: str) -> Script:
    answers = {}
    for name in ("one", "two"):
        with suppress(BaseException):
            answers[name] = yield ctx.ask(f"{name}?", name=name)
    return answers


def raises_on_its_way(ctx: Context, folder: str) -> Script:
    try:
        return (yield ctx.ask("Really?"))
    finally:
        if ctx.attempt == 1:
            raise ValueError("on its way out")


def flaky(ctx: Context, folder: str) -> Script:
    if add(folder, "tries") < 3:
        raise ConnectionError("busy")
    answer = yield ctx.ask("Really?")
    if add(folder, "more tries") < 3:
        raise ConnectionError("busy again")
    return answer
