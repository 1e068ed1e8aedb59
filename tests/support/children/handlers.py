"""Handlers for child processes: a child imports this module and finds them by name."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laneway import Context, GiveUp, Scheduler, Snooze
from laneway.engine.handlers.context import carried
from tests.support.waits import thread_between_looks

app = Scheduler("memory://")
somebody: contextvars.ContextVar[str] = contextvars.ContextVar("somebody", default="nobody")
left_behind: list[Context] = []
left_running: list[asyncio.Task[Any]] = []


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(name="another-name")
async def async_add(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def unregistered(n: int) -> int:
    return n


class Handlers:
    @staticmethod
    def add(a: int, b: int) -> int:
        return a + b


def pid() -> int:
    return os.getpid()


def echo(text: str) -> str:
    return text


def repeat(times: int) -> str:
    return "x" * times


def not_json() -> object:
    return {"f": float("nan")}


def fail(text: str) -> None:
    raise ValueError(text)


def surrogate() -> None:
    raise ValueError("\ud800")


def leave(status: int) -> None:
    sys.exit(status)


def leave_hard(status: int, ctx: Context) -> None:
    ctx.log("last words")
    os._exit(status)


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def eat_memory() -> int:
    limit = 1 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    return len(bytearray(8 * limit))


def tell(n: int, ctx: Context) -> None:
    for i in range(n):
        ctx.emit("count", i)


async def tell_all(ctx: Context) -> dict[str, Any]:
    ctx.progress(0.5, "half")
    ctx.log("a line")
    ctx.emit("mine", {"x": 1})
    ctx.emit("big", "x" * 10_000)
    return {
        "run_id": ctx.run_id,
        "task": ctx.task,
        "attempt": ctx.attempt,
        "fence": ctx.fence,
        "user": ctx.user,
        "session": ctx.session,
        "state": child(ctx).state,
        "cancelled": child(ctx).cancelled,
        "carried": dict(carried.get()),
    }


def say_everything(ctx: Context) -> None:
    for word in ("one ", "two ", "three"):
        ctx.delta(word)
    with ctx.tool("search", {"q": "x"}) as tool:
        ctx.log("searching")
        tool.output = ["found"]
    try:
        with ctx.tool("fetch"):
            raise OSError("no network")
    except OSError:
        ctx.progress(0.25, "a quarter")
        ctx.progress(0.5, "half")


def say_and_fail(ctx: Context) -> None:
    ctx.emit("mine")
    raise OSError("no network")


async def say_everything_async(ctx: Context) -> None:
    say_everything(ctx)
    await asyncio.sleep(0)


def carry() -> dict[str, str]:
    return dict(carried.get())


def count_up(upto: int, ctx: Context) -> int:
    at = child(ctx).state or 0
    while at < upto:
        at += 1
        ctx.log(f"at {at}")
        child(ctx).checkpoint(at)
    return at


async def async_count_up(upto: int, ctx: Context) -> int:
    at: int = child(ctx).state or 0
    while at < upto:
        at += 1
        await child(ctx).checkpoint(at)
    return at


def bad_checkpoint(ctx: Context) -> None:
    child(ctx).checkpoint(object())


def look_for_cancel(ctx: Context) -> str:
    ctx.log("ready")
    while not child(ctx).cancelled:
        thread_between_looks()
    return "stopped by myself"


async def wait_for_cancel(ctx: Context) -> None:
    ctx.log("ready")
    try:
        await asyncio.Event().wait()
    finally:
        ctx.log("cleaned up")


def wait_for_term(ctx: Context) -> None:
    try:
        ctx.log("ready")
        threading.Event().wait()
    finally:
        ctx.log("cleaned up")


async def swallow_cancel(ctx: Context) -> None:
    ctx.log("ready")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ctx.log("swallowed")


def ignore_everything(ctx: Context) -> None:
    signal.signal(signal.SIGTERM, lambda *_: ctx.log("ignored"))
    ctx.log("ready")
    while True:
        signal.pause()


def start_another(ctx: Context) -> None:
    another = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    ctx.emit("another", another.pid)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    another.wait()


def start_another_and_die(ctx: Context) -> None:
    another = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    ctx.emit("another", another.pid)
    os._exit(1)


def fork_and_terminate() -> int | None:
    forked = multiprocessing.get_context("fork").Process(target=signal.pause)
    forked.start()
    forked.terminate()
    forked.join()
    return forked.exitcode


def leave_a_thread(ctx: Context) -> None:
    left_behind.append(ctx)


def hear_a_thread(ctx: Context) -> None:
    left_behind[-1].log("from the attempt before")
    ctx.log("from this attempt")


async def leave_a_task() -> int:
    left_running.append(asyncio.ensure_future(asyncio.Event().wait()))
    return os.getpid()


async def see_a_task() -> bool:
    return left_running[-1].cancelled()


def set_somebody() -> str:
    before = somebody.get()
    somebody.set("ann")
    return before


def run_a_loop(a: int) -> int:
    return asyncio.run(async_add.function(a, 1))


def speak(text: str) -> None:
    sys.stdout.write(text)
    sys.stderr.write(text)


def read_stdin() -> str:
    return sys.stdin.read()


def group() -> list[int]:
    return [os.getpid(), os.getpgrp(), os.getsid(0)]


def write_pid(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    threading.Event().wait()


def unwrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    def inner(**args: Any) -> Any:
        return function(**args)

    return inner


def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(**args: Any) -> Any:
        return function(**args)

    return inner


@unwrapping
def unwrapped() -> int:
    return 1


@wrapping
def wrapped(n: int) -> int:
    return n


@wrapping
async def wrapped_async(n: int) -> int:
    await asyncio.sleep(0)
    return n


def twice() -> int:
    return 1


first_twice = twice


def twice() -> int:  # type: ignore[no-redef]  # what the test is about
    return 2


def child(ctx: Context) -> Any:
    return ctx


def snooze() -> None:
    raise Snooze(60)


def give_up() -> None:
    raise GiveUp("no use")


class NotThere(KeyError):
    retry_after = 7


def not_there() -> None:
    raise NotThere("yet")
