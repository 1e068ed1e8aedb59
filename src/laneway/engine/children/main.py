"""The main program of a child process: it executes attempts for one worker, one at a time, and dies with it.

`engine/children/pool.py` starts it as the leader of a process group and session of its own. So the worker decides about
a Ctrl-C at its terminal, and everything that a handler starts can be stopped with the child. stdin is empty; stdout and
stderr are the worker's.

Plain handlers are called in the main thread, outside of any loop. Async ones run on one loop that is kept from attempt
to attempt; nothing of an earlier attempt is left running on it. SIGTERM, if the worker wants it, raises in the main
thread and so unwinds the handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import cache
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, NoReturn

from laneway.core.lifecycle.outcome import Outcome
from laneway.core.records.policy import TaskPolicy
from laneway.engine.children.attempt import ChildAttempt, Terminated, WorkerConnection
from laneway.engine.children.protocol import Begun, Passing, ended, names_of
from laneway.engine.handlers import import_path
from laneway.engine.handlers.context import carried
from laneway.engine.handlers.replay import is_unwound
from laneway.engine.handlers.results import after_raise, after_return, failed, wait_of
from laneway.engine.handlers.task import Task
from laneway.errors import BadSetting, GiveUp, Snooze

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Execute the orders from the socket (first argument: its number) of the parent process (second: its pid)."""
    fd, parent = int(sys.argv[1]), int(sys.argv[2])
    del sys.argv[1:]
    _die_with(parent)
    import_path.inside_child = True
    link = socket.socket(fileno=fd)
    link.set_inheritable(False)
    connection = WorkerConnection(link)
    connection.watch_forks()
    threading.Thread(target=connection.listen, daemon=True, name="laneway-line").start()
    signal.signal(signal.SIGTERM, connection.on_sigterm)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the thread that started this process has blocked signals
    with contextlib.suppress(Terminated), asyncio.Runner() as loop:
        while (attempt := connection.attempts.get()) is not None:
            _execute(attempt, connection, loop)
            signal.signal(signal.SIGTERM, connection.on_sigterm)  # the handler may have changed it


def _die_with(parent: int) -> None:
    # The kernel kills this process when the parent's thread that started it ends; that thread lives as long as we do.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    # Race: the parent may have died before this call.
    if os.getppid() != parent:
        os._exit(1)


def _execute(attempt: ChildAttempt, connection: WorkerConnection, loop: asyncio.Runner) -> None:
    connection.send(Begun())
    try:
        outcome = _outcome(attempt, loop)
    except Terminated:
        attempt.end(ended(None))
        raise
    for stream in (sys.stdout, sys.stderr):
        # The handler's output is flushed before the run ends. Whether that works does not matter to the run.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    attempt.end(ended(outcome, attempt.passing))


def _outcome(attempt: ChildAttempt, loop: asyncio.Runner) -> Outcome | None:
    task = None
    try:
        task = _task(attempt.order.place, attempt.run.task)  # imports the user's module, which may do anything
        attempt.task = task
        if attempt.cancelled:
            return None
        value, replay = _call(task, attempt, loop), attempt.replay
        return replay.outcome() if replay.waits else replay.after(after_return(task, value, attempt.order.result_limit))
    except Terminated:
        raise
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is the attempt's outcome
        if is_unwound(error):
            return attempt.replay.outcome() if attempt.replay.waits else None
        if isinstance(error, asyncio.CancelledError) and attempt.cancelled:
            return None
        attempt.passing = _passing(error, attempt.order.transient)
        return failed(error) if task is None else after_raise(task, attempt.run.args, error)


def _passing(error: BaseException, transient: frozenset[str]) -> Passing | None:
    if isinstance(error, (GiveUp, Snooze)) or transient.isdisjoint(names_of(type(error).__mro__[:-1])):
        return None
    return Passing(wait_of(error))


@cache
def _task(place: import_path.ImportPath, name: str) -> Task[..., Any]:
    there = import_path.find(place)
    return there if isinstance(there, Task) else Task(name, there, TaskPolicy(), _submit_nothing)


def _call(task: Task[..., Any], attempt: ChildAttempt, loop: asyncio.Runner) -> Any:
    args = task.parameters.unpack(attempt.run.args)
    if task.parameters.context is not None:
        args[task.parameters.context] = attempt.context()
    context = copy_context()
    context.run(carried.set, MappingProxyType(attempt.order.carried))
    if task.is_async:
        return loop.run(_on_loop(lambda: task.function(**args), attempt), context=context)
    value = context.run(lambda: task.function(**args))
    # A decorator that does not know async turns an async handler into a plain one that returns an awaitable.
    return loop.run(_on_loop(lambda: value, attempt), context=context) if isawaitable(value) else value


async def _on_loop(call: Callable[[], Any], attempt: ChildAttempt) -> Any:
    handler, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert handler is not None
    attempt.when_cancelled(lambda: loop.call_soon_threadsafe(handler.cancel))
    try:
        value = call()
        return await value if isawaitable(value) else value
    finally:
        await attempt.replay.concurrent_steps.end(cancel=attempt.cancelled)
        # As asyncio.run does: the attempt is not over while a task of it still runs.
        left = asyncio.all_tasks() - {handler}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _submit_nothing(task: Task[..., Any], args: Mapping[str, Any], **options: Any) -> NoReturn:
    raise BadSetting(f"{task.name} is known here by its function alone; submit it through its scheduler")
