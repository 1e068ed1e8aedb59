"""Scripts of runs that call other runs."""

from __future__ import annotations

import re
from typing import Any

from laneway import BadSetting, Context, RunCancelled, RunDropped, RunFailed
from laneway.errors import UsageError
from tests.support.scripts.runner import Script, add, named


def calls(ctx: Context, folder: str) -> Script:
    add(folder, "starts")
    first = yield ctx.call("echo", {"value": [1]})
    second = yield ctx.call("echo", {"value": {"n": first}}, name="second", lane="team", priority=5)
    return [first, second]


def asks_whose(ctx: Context, folder: str) -> Script:
    return [ctx.run_id, (yield ctx.call("whose"))]


def catches(ctx: Context, folder: str) -> Script:
    """Catch how a called run ended, and whose it was."""
    try:
        return (yield ctx.call("fail", {"text": "no luck"}))
    except RunFailed as error:
        return ["failed", error.run_id, error.reason, error.message, add(folder, "caught")]


def catches_cancelled(ctx: Context, folder: str) -> Script:
    try:
        return (yield ctx.call("run_script", {"name": named(waits_for_ever), "folder": folder}))
    except (RunCancelled, RunDropped) as error:
        return [type(error).__name__, error.run_id, error.reason]


def waits_for_ever(ctx: Context, folder: str) -> Script:
    return (yield ctx.ask("Shall I go on?"))


def lets_fail(ctx: Context, folder: str) -> Script:
    """Fail with a called run, and call again what failed and nothing else."""
    good = yield ctx.call("echo", {"value": "good"}, name="good")
    bad = yield ctx.call("run_script", {"name": named(fails_once), "folder": folder}, name="bad")
    return [good, bad, ctx.attempt]


def fails_once(ctx: Context, folder: str) -> Script:
    if (yield ctx.step("bad", add, folder, "bad")) == 1:
        raise ValueError("the first time")
    return "better"


def nests(ctx: Context, folder: str) -> Script:
    """Call oneself as deep as it goes."""
    try:
        below = yield ctx.call("run_script", {"name": named(nests), "folder": folder})
    except BadSetting as error:
        return [str(error).partition(";")[0].replace(ctx.run_id, "it")]
    return ["called", *below]


def nests_and_asks(ctx: Context, folder: str) -> Script:
    if ctx.parent is not None and add(folder, "below") > 2:
        return (yield ctx.ask("How deep?"))
    return (yield ctx.call("run_script", {"name": named(nests_and_asks), "folder": folder}))


def calls_many(ctx: Context, folder: str) -> Script:
    called = 0
    try:
        for n in range(20):
            yield ctx.call("echo", {"value": n})
            called += 1
    except BadSetting as error:
        return [called, str(error)]


def other_arguments(ctx: Context, folder: str) -> Script:
    return (yield ctx.call("echo", {"value": ctx.fence}))


def other_arguments_by_name(ctx: Context, folder: str) -> Script:
    return (yield ctx.call("echo", {"value": ctx.fence}, name="same"))


def wrong(ctx: Context, folder: str) -> Script:
    said: list[str] = []
    options: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        ("ecko", {}, {}),
        ("echo", {"volume": 11}, {}),
        ("echo", {"value": object()}, {}),
        ("echo", {"value": "x" * 300_000}, {}),
        (len, {}, {}),
        ("echo", {"value": 1}, {"user": "ben"}),
        ("echo", {"value": 1}, {"delay": 5}),
        ("echo", {"value": 1}, {"priority": 1000}),
        ("echo", {"value": 1}, {"name": "x" * 201}),
    ]
    for task, args, more in options:
        try:
            yield ctx.call(task, args, **more)
        except UsageError as error:
            said.append(f"{type(error).__name__}: {re.split(r'[:;]|, did', str(error))[0]}")
    return said
