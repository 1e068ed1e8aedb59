"""The app of the test of steps: its handlers follow a plan, and journal every effect and every value that they get.

A plan is a list of actions: a step, a question, a call, a follow-up, or several questions and calls at once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from laneway import Context, Retry, RunCancelled, RunFailed, Scheduler
from tests.system.load.app import LANES, SETTINGS, journal, result
from tests.system.oracle.journal import StepExecuted, ValueReturned

ATTEMPTS = 3
Action = dict[str, Any]

app = Scheduler(
    os.environ.get("LANEWAY_STORE", "memory://"), lanes=LANES, **msgspec.json.decode(os.environ.get(SETTINGS, "{}"))
)
soon_again = Retry(attempts=ATTEMPTS, base=0.02, jitter=0.5)


@app.task(lane="wide", retry=soon_again, max_crashes=1000)
async def follow_on_loop(
    name: str, actions: list[Action], takes: float = 0, failures: int = 0, *, ctx: Context
) -> dict[str, Any]:
    """Do the actions on the loop; fail the first `failures` attempts."""
    with journal().attempt(ctx):
        for action in actions:
            await asyncio.sleep(takes / 2)
            for part, value in zip(_parts(action), await asyncio.gather(*_on_loop(action, takes, ctx)), strict=True):
                _write_value(part, value, ctx)
        return result(failures, ctx)


@app.task(lane="wide", retry=soon_again, max_crashes=1000)
def follow_in_thread(
    name: str, actions: list[Action], takes: float = 0, failures: int = 0, *, ctx: Context
) -> dict[str, Any]:
    """Do the actions in a thread; fail the first `failures` attempts."""
    return _follow_blocking(actions, takes, failures, ctx)


@app.task(lane="wide", retry=soon_again, max_crashes=1000, process=True)
def follow_in_process(
    name: str, actions: list[Action], takes: float = 0, failures: int = 0, *, ctx: Context
) -> dict[str, Any]:
    """Do the actions in a child process; fail the first `failures` attempts."""
    return _follow_blocking(actions, takes, failures, ctx)


def _follow_blocking(actions: list[Action], takes: float, failures: int, ctx: Context) -> dict[str, Any]:
    with journal().attempt(ctx):
        for action in actions:
            time.sleep(takes / 2)
            for part in _parts(action):
                _write_value(part, _done(part, takes, ctx), ctx)
        return result(failures, ctx)


def _write_value(part: Action, value: Any, ctx: Context) -> None:
    journal().write(ValueReturned, run=ctx.run_id, fence=ctx.fence, name=part["name"], value=value)


def _parts(action: Action) -> list[Action]:
    return action["all"] if action["do"] == "at once" else [action]


def _on_loop(action: Action, takes: float, ctx: Context) -> Iterator[Any]:
    for part in _parts(action):
        if part["do"] == "step":
            yield ctx.step(part["name"], _act_on_loop if part["on_loop"] else _act, part["name"], takes, ctx)
        elif part["do"] == "call":
            yield _called(part, ctx)
        elif part["do"] == "ask":
            yield ctx.ask({"of": part["name"]}, name=part["name"])
        else:
            yield asyncio.sleep(0, _submitted(part, ctx))


async def _called(part: Action, ctx: Context) -> Any:
    try:
        return await ctx.call(part["task"], part["args"], name=part["name"])
    except (RunFailed, RunCancelled) as ended:
        return {"ended": ended.reason}


def _done(part: Action, takes: float, ctx: Context) -> Any:
    if part["do"] == "step":
        return ctx.step(part["name"], _act, part["name"], takes, ctx)
    if part["do"] == "ask":
        return ctx.ask({"of": part["name"]}, name=part["name"])
    if part["do"] == "submit":
        return _submitted(part, ctx)
    try:
        return ctx.call(part["task"], part["args"], name=part["name"])
    except (RunFailed, RunCancelled) as ended:
        return {"ended": ended.reason}


def _submitted(part: Action, ctx: Context) -> str:
    return ctx.submit(part["task"], part["args"]).run_id


def _act(step: str, takes: float, ctx: Context) -> dict[str, Any]:
    time.sleep(takes / 2)
    value = _effect(step, ctx)
    time.sleep(takes / 2)
    return value


async def _act_on_loop(step: str, takes: float, ctx: Context) -> dict[str, Any]:
    await asyncio.sleep(takes / 2)
    value = _effect(step, ctx)
    await asyncio.sleep(takes / 2)
    return value


def _effect(step: str, ctx: Context) -> dict[str, Any]:
    # The value that is kept names the execution that made it.
    mark = secrets.token_hex(8)
    journal().write(StepExecuted, run=ctx.run_id, fence=ctx.fence, step=step, mark=mark, token=ctx.step_token)
    return {"fence": ctx.fence, "mark": mark}
