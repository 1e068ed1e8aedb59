"""The app of the test of steps: handlers that do what a plan says, and write down every effect and all they hear.

A plan is a list of deeds: a step, a question, a call, a run to leave behind, or several questions and calls at once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from laneway import Context, Retry, RunCancelled, RunFailed, Scheduler
from tests.system.load.app import LANES, SETTINGS, AskedFor, pen
from tests.system.oracle.diary import Diary, Did, Got

ATTEMPTS = 3
Deed = dict[str, Any]

app = Scheduler(
    os.environ.get("LANEWAY_STORE", "memory://"), lanes=LANES, **msgspec.json.decode(os.environ.get(SETTINGS, "{}"))
)
soon_again = Retry(attempts=ATTEMPTS, base=0.02, jitter=0.5)


@cache
def diary() -> Diary:
    """Return the diary of this process's stage."""
    return Diary.of_environment()


@app.task(lane="wide", retry=soon_again, max_crashes=1000)
async def run_errand(
    name: str, deeds: list[Deed], takes: float = 0, failures: int = 0, *, ctx: Context
) -> dict[str, Any]:
    """Do the deeds on the loop; fail the first `failures` attempts."""
    with pen().attempt(ctx):
        for deed in deeds:
            await asyncio.sleep(takes / 2)
            for part, value in zip(_parts(deed), await asyncio.gather(*_on_loop(deed, takes, ctx)), strict=True):
                diary().write(Got(ctx.run_id, ctx.fence, part["name"], value))
        return _ending(failures, ctx)


@app.task(lane="wide", retry=soon_again, max_crashes=1000)
def walk_errand(name: str, deeds: list[Deed], takes: float = 0, failures: int = 0, *, ctx: Context) -> dict[str, Any]:
    """Do the deeds in a thread; fail the first `failures` attempts."""
    return _by_foot(deeds, takes, failures, ctx)


@app.task(lane="wide", retry=soon_again, max_crashes=1000, process=True)
def send_errand(name: str, deeds: list[Deed], takes: float = 0, failures: int = 0, *, ctx: Context) -> dict[str, Any]:
    """Do the deeds in a child process; fail the first `failures` attempts."""
    return _by_foot(deeds, takes, failures, ctx)


def _by_foot(deeds: list[Deed], takes: float, failures: int, ctx: Context) -> dict[str, Any]:
    with pen().attempt(ctx):
        for deed in deeds:
            time.sleep(takes / 2)
            for part in _parts(deed):
                diary().write(Got(ctx.run_id, ctx.fence, part["name"], _done(part, takes, ctx)))
        return _ending(failures, ctx)


def _parts(deed: Deed) -> list[Deed]:
    return deed["all"] if deed["do"] == "at once" else [deed]


def _on_loop(deed: Deed, takes: float, ctx: Context) -> Iterator[Any]:
    for part in _parts(deed):
        if part["do"] == "step":
            yield ctx.step(part["name"], _act_on_loop if part["on_loop"] else _act, part["name"], takes, ctx)
        elif part["do"] == "call":
            yield _called(part, ctx)
        elif part["do"] == "ask":
            yield ctx.ask({"of": part["name"]}, name=part["name"])
        else:
            yield asyncio.sleep(0, _left(part, ctx))


async def _called(part: Deed, ctx: Context) -> Any:
    try:
        return await ctx.call(part["task"], part["args"], name=part["name"])
    except (RunFailed, RunCancelled) as ended:
        return {"ended": ended.reason}


def _done(part: Deed, takes: float, ctx: Context) -> Any:
    if part["do"] == "step":
        return ctx.step(part["name"], _act, part["name"], takes, ctx)
    if part["do"] == "ask":
        return ctx.ask({"of": part["name"]}, name=part["name"])
    if part["do"] == "leave":
        return _left(part, ctx)
    try:
        return ctx.call(part["task"], part["args"], name=part["name"])
    except (RunFailed, RunCancelled) as ended:
        return {"ended": ended.reason}


def _left(part: Deed, ctx: Context) -> str:
    return ctx.submit(part["task"], part["args"]).run_id


def _act(step: str, takes: float, ctx: Context) -> dict[str, Any]:
    time.sleep(takes / 2)
    value = _have_an_effect(step, ctx)
    time.sleep(takes / 2)
    return value


async def _act_on_loop(step: str, takes: float, ctx: Context) -> dict[str, Any]:
    await asyncio.sleep(takes / 2)
    value = _have_an_effect(step, ctx)
    await asyncio.sleep(takes / 2)
    return value


def _have_an_effect(step: str, ctx: Context) -> dict[str, Any]:
    # What is kept names the execution that it is the result of.
    mark = secrets.token_hex(8)
    diary().write(Did(ctx.run_id, ctx.fence, step, mark, ctx.step_token))
    return {"fence": ctx.fence, "mark": mark}


def _ending(failures: int, ctx: Context) -> dict[str, Any]:
    if ctx.attempt <= failures:
        raise AskedFor(f"attempt {ctx.attempt} of {failures} that fail")
    return {"fence": ctx.fence, "process": pen().process}
