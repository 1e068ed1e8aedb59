"""The app whose workers the system tests start, kill and freeze: its handlers write a journal.

Store and settings come from the environment, so that one module serves every test and the real command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from laneway import Breaker, Context, Lane, Retry, Scheduler
from tests.system.oracle.journal import JournalWriter, Killed

SETTINGS = "SYSTEM_TEST_SETTINGS"  # environment: the scheduler's settings as JSON

# The limits are low, so that breaking one is likely where it is possible.
LANES = (Lane("wide", limit=10, per_user=3), Lane("narrow", limit=2, per_user=1))
MARKS = 3  # events of its own that a handler emits

app = Scheduler(
    os.environ.get("LANEWAY_STORE", "memory://"), lanes=LANES, **msgspec.json.decode(os.environ.get(SETTINGS, "{}"))
)
soon_again = Retry(attempts=4, base=0.05, jitter=0.5)


class AskedFor(Exception):
    """The failure a test asked a handler for."""


@cache
def journal() -> JournalWriter:
    """Return the journal writer of this process."""
    return JournalWriter.from_environment()


@app.task(lane="wide", retry=soon_again, max_crashes=1000)
async def stroll(takes: float = 0, failures: int = 0, delay: float = 0, *, ctx: Context) -> dict[str, Any]:
    """Take a while on the loop; fail the first `failures` attempts; rules read the `delay`."""
    with journal().attempt(ctx):
        for mark in range(MARKS):
            ctx.emit("mark", {"fence": ctx.fence, "mark": mark})
            await asyncio.sleep(takes / MARKS)
        return result(failures, ctx)


@app.task(lane="wide", retry=soon_again, max_crashes=1000)
def plod(takes: float = 0, failures: int = 0, delay: float = 0, *, ctx: Context) -> dict[str, Any]:
    """Take a while in a thread; fail the first `failures` attempts; rules read the `delay`."""
    with journal().attempt(ctx):
        for mark in range(MARKS):
            ctx.emit("mark", {"fence": ctx.fence, "mark": mark})
            time.sleep(takes / MARKS)
        return result(failures, ctx)


@app.task(lane="wide", max_crashes=1000)
async def stream(steps: int, *, ctx: Context) -> dict[str, Any]:
    """Emit what an agent emits, step by step; continue where the attempt before stopped."""
    with journal().attempt(ctx):
        for step in range(ctx.state or 0, steps):
            ctx.delta(f"word {step} of fence {ctx.fence} ")
            with ctx.tool("look", {"step": step}) as tool:
                await asyncio.sleep(0.01)
                tool.output = step
            ctx.progress(step / steps)
            if step % 5 == 0:
                await ctx.checkpoint(step)
        return result(0, ctx)


@app.task(lane="wide", max_crashes=1000)
async def hold(gate: str, *, ctx: Context) -> dict[str, Any]:
    """Go on until the file `gate` exists."""
    with journal().attempt(ctx):
        while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - the test is another process: a file is our signal
            await asyncio.sleep(0.01)
        return result(0, ctx)


@app.task(lane="wide", max_crashes=1000)
def hold_in_thread(gate: str, *, ctx: Context) -> dict[str, Any]:
    """Go on, in a thread that cannot be stopped, until the file `gate` exists."""
    with journal().attempt(ctx):
        while not Path(gate).exists():
            time.sleep(0.01)
        return result(0, ctx)


@app.task(lane="wide", timeout=0.5, max_crashes=1000, retry=soon_again)
def ignore(gate: str, *, ctx: Context) -> dict[str, Any]:
    """Go on, in a thread that heeds nothing and beyond its timeout, until the file `gate` exists."""
    with journal().attempt(ctx):
        while not Path(gate).exists():
            time.sleep(0.01)
        return result(0, ctx)


@app.task(lane="wide", max_crashes=1000)
async def swallow(gate: str, *, ctx: Context) -> dict[str, Any]:
    """Go on, on the loop and despite cancellations, until the file `gate` exists."""
    with journal().attempt(ctx):
        while not Path(gate).exists():  # noqa: ASYNC240 - as above
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return result(0, ctx)


@app.task(lane="wide")
async def block(takes: float, *, ctx: Context) -> dict[str, Any]:
    """Block the loop, as a handler should not."""
    with journal().attempt(ctx):
        time.sleep(takes)  # noqa: ASYNC251 - that is the point
        return result(0, ctx)


@app.task(lane="wide")
async def linger(takes: float, *, ctx: Context) -> dict[str, Any]:
    """Take a while, with the crashes a task may have by default."""
    with journal().attempt(ctx):
        await asyncio.sleep(takes)
        return result(0, ctx)


@app.task(lane="wide", retry=None, breaker=Breaker(6, open_for=2))
async def knock(gate: str, *, ctx: Context) -> dict[str, Any]:
    """Fail, after a while, unless the file `gate` exists; stay for as long as there is one beside it, `gate.stay`."""
    with journal().attempt(ctx):
        await asyncio.sleep(0.05)
        while Path(f"{gate}.stay").exists():  # noqa: ASYNC110, ASYNC240 - as above
            await asyncio.sleep(0.01)
        if not Path(gate).exists():  # noqa: ASYNC240 - as above
            raise AskedFor("nobody opens")
        return result(0, ctx)


@app.task(lane="wide")
async def exhaust(gate: str, *, ctx: Context) -> dict[str, Any]:
    """Use up all file descriptors of the process until the file `gate` exists."""
    with journal().attempt(ctx):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - as above
            await asyncio.sleep(0.01)
        for descriptor in taken:
            os.close(descriptor)
        return result(0, ctx)


@app.task(lane="wide")
async def poison(*, ctx: Context) -> None:
    """Kill the worker, as a handler that runs out of memory would."""
    with journal().attempt(ctx):
        journal().write(Killed)
        os.kill(os.getpid(), signal.SIGKILL)


def result(failures: int, ctx: Context) -> dict[str, Any]:
    """Return what a handler returns; raise in each of its first `failures` attempts.

    The result names the lease that produced it, so a rule finds a result that was written under any other lease.
    """
    if ctx.attempt <= failures:
        raise AskedFor(f"attempt {ctx.attempt} of {failures} that fail")
    return {"fence": ctx.fence, "process": journal().process}
