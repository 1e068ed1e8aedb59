"""Scripts of runs that leave follow-ups behind."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from laneway import BadSetting, Context, GiveUp, Snooze
from laneway.engine.handlers.context import carried
from laneway.errors import UsageError
from tests.support.scripts.runner import Script, add, named


def submits(ctx: Context, folder: str) -> Script:
    yield from ()
    first = ctx.submit("echo", {"value": "one"})
    second = ctx.submit("whose", priority=7, lane="team", session=None)
    return [first.run_id, second.run_id]


def submits_and_fails(ctx: Context, folder: str) -> Script:
    yield from ()
    ctx.submit("echo", {"value": ctx.attempt})
    if ctx.attempt < 3:
        raise ValueError("not yet")
    return "done"


def submits_and_gives_up(ctx: Context, folder: str) -> Script:
    yield from ()
    ctx.submit("echo", {"value": "never"})
    raise GiveUp("no luck")


def submits_and_snoozes(ctx: Context, folder: str) -> Script:
    yield from ()
    ctx.submit("echo", {"value": ctx.fence})
    if ctx.fence == 1:
        raise Snooze(0)
    return "done"


def submits_and_asks(ctx: Context, folder: str) -> Script:
    ctx.submit("echo", {"value": ctx.fence})
    return (yield ctx.ask("Really?"))


def flaky(ctx: Context, folder: str) -> Script:
    yield from ()
    ctx.submit("echo", {"value": add(folder, "tries")})
    if add(folder, "tries") < 4:
        raise ConnectionError("busy")
    return "done"


def submits_too_many(ctx: Context, folder: str) -> Script:
    yield from ()
    try:
        for n in range(20):
            ctx.submit("echo", {"value": n})
    except BadSetting as error:
        return str(error)


def nests(ctx: Context, folder: str) -> Script:
    yield from ()
    try:
        ctx.submit("run_script", {"name": named(nests), "folder": folder})
    except BadSetting as error:
        return str(error).replace(ctx.run_id, "it")
    return "one more"


def awaits_in_a_loop(ctx: Context, folder: str) -> Script:
    yield from ()
    held = ctx.submit("echo", {"value": 1})
    assert repr(held) == f"<held-back run {held.run_id}>"
    try:
        held.__await__()  # type: ignore[attr-defined]  # as `await` would
    except BadSetting as error:
        return str(error)


def wrong(ctx: Context, folder: str) -> Script:
    yield from ()
    said: list[str] = []
    options: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        ("ecko", {}, {}),
        ("echo", {"volume": 11}, {}),
        ("echo", {"value": "x" * 300_000}, {}),
        (len, {}, {}),
        ("echo", {"value": 1}, {"user": "ben"}),
        ("echo", {"value": 1}, {"trace": {}}),
        ("echo", {"value": 1}, {"key": "k"}),
        ("echo", {"value": 1}, {"delay": -1}),
        ("echo", {"value": 1}, {"at": datetime(2026, 1, 1)}),  # noqa: DTZ001 - that is the point
        ("echo", {"value": 1}, {"then": 7}),
    ]
    for task, args, more in options:
        try:
            ctx.submit(task, args, **more)
        except UsageError as error:
            said.append(f"{type(error).__name__}: {re.split(r'[:;]|, did', str(error))[0]}")
    return said


def traces(ctx: Context, folder: str) -> Script:
    ctx.submit("whose")
    called = yield ctx.call("whose")
    return [dict(ctx.trace), dict(carried.get()), called[3]]
