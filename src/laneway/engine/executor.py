"""Executing one attempt: call the handler, say what it ended in. It decides nothing and writes nothing."""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from inspect import CORO_CREATED, getcoroutinestate, isawaitable
from typing import Any

from laneway.core import codec
from laneway.core.events import Draft
from laneway.core.outcome import Failed, Outcome, Released, Succeeded
from laneway.core.run import Claimed, Failure
from laneway.engine.context import Context
from laneway.engine.tasks import Task
from laneway.errors import BadArguments

TRACEBACK_LIMIT = 16 * 1024
MESSAGE_LIMIT = 2 * 1024


class Stop(Enum):
    """Why the engine stopped a handler before it was done."""

    TIMED_OUT = "timed out"
    RELEASED = "released"
    LOST = "lost"


class Execution:
    """One attempt in progress: the lease, the handler's task on the loop, its events no store has seen yet."""

    __slots__ = ("deadline", "drafts", "handle", "run", "stopped", "task")

    def __init__(self, run: Claimed, task: Task[..., Any]) -> None:
        self.run, self.task = run, task
        self.drafts: list[Draft] = []
        self.handle: asyncio.Task[None] | None = None
        self.stopped: Stop | None = None
        self.deadline = 0.0

    def stop(self, why: Stop) -> None:
        """Stop the handler, once; the first reason is the one that counts."""
        if self.stopped is None:
            self.stopped = why
            # Race: a task cancelled before its first turn never runs, and then nobody would settle the run. One that
            # has not begun is left to see for itself that it need not.
            if self.handle is not None and getcoroutinestate(self.handle.get_coro()) != CORO_CREATED:  # type: ignore[arg-type]  # a task made from a coroutine has one
                self.handle.cancel()

    def take_drafts(self) -> tuple[Draft, ...]:
        """Return the buffered events and forget them."""
        # Race: a handler in a thread may add to the list between the copy and the cut; what it adds stays.
        drafts = tuple(self.drafts)
        del self.drafts[: len(drafts)]
        return drafts


class Executor:
    """Calls handlers: async ones on the loop, plain ones in threads."""

    def __init__(self, threads: int, result_limit: int, buffered: Callable[[Execution], None]) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="laneway-handler")
        self._result_limit = result_limit
        self._buffered = buffered

    def close(self) -> None:
        """Take no more handlers; threads that still run go on."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def execute(self, execution: Execution) -> Outcome:
        """Call the handler and return the outcome. Raises nothing, whatever the handler does."""
        run, task = execution.run, execution.task
        parameters = task.parameters
        try:
            args = parameters.unpack(run.args)
            if parameters.context is not None:
                args[parameters.context] = Context(run, execution.drafts, lambda: self._buffered(execution))
            value = await (task.function(**args) if task.is_async else self._in_thread(task.function, args))
            if not task.is_async and isawaitable(value):
                value = await value  # what a decorator leaves of an async handler if it knows nothing of async
            if execution.stopped is Stop.TIMED_OUT:
                return self._after_stop(execution)
            return self._after_return(task, value)
        except asyncio.CancelledError as error:
            # Nobody stopped it: the handler let a cancellation of its own escape.
            return self._after_stop(execution) if execution.stopped else Failed(_failure("error", error))
        except _RaisedInThread as raised:
            return self._after_stop(execution) if execution.stopped else self._after_raise(execution, raised.error)
        except BaseException as error:  # noqa: BLE001  # SystemExit in a handler must not end the worker
            return self._after_stop(execution) if execution.stopped else self._after_raise(execution, error)

    async def _in_thread(self, function: Callable[..., Any], args: dict[str, Any]) -> Any:
        call = self._pool.submit(contextvars.copy_context().run, _carried, function, args)
        ended = asyncio.wrap_future(call)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if call.cancel():
                raise  # it had not begun
            # Python cannot stop a thread. The run is not over, and its lease not free, before the thread is;
            # a second cancellation is the loop closing, and then this process will not wait for it.
            return await ended

    def _after_return(self, task: Task[..., Any], value: Any) -> Outcome:
        try:
            return Succeeded(codec.to_json(value, f"the result of {task.name}", self._result_limit, plural=False))
        except BadArguments as error:
            return Failed(Failure("bad_result", "BadResult", str(error)))

    def _after_raise(self, execution: Execution, error: BaseException) -> Outcome:
        if isinstance(error, (TypeError, ValueError)):
            # The handler may have changed since the run was submitted: then its arguments are to blame, not its code.
            try:
                execution.task.parameters.check(execution.run.args)
            except BadArguments as misfit:
                return Failed(Failure("bad_arguments", "BadArguments", str(misfit)))
        return Failed(_failure("error", error))

    def _after_stop(self, execution: Execution) -> Outcome:
        if execution.stopped is Stop.TIMED_OUT:
            seconds = (execution.task.policy.timeout or 0) / 1_000_000
            return Failed(Failure("timed_out", "TimeoutError", f"the handler took longer than {seconds:g} s"))
        return Released()


class _RaisedInThread(Exception):
    """What a handler raised in its thread, wrapped: a future cannot carry StopIteration, nor a coroutine raise it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _carried(function: Callable[..., Any], args: dict[str, Any]) -> Any:
    try:
        return function(**args)
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is the attempt's outcome
        raise _RaisedInThread(error) from None


def _failure(kind: str, error: BaseException) -> Failure:
    trace = "".join(traceback.format_exception(error))
    return Failure(kind, type(error).__name__, _message(error)[:MESSAGE_LIMIT], _printable(trace[-TRACEBACK_LIMIT:]))


def _message(error: BaseException) -> str:
    try:
        return _printable(str(error))
    except Exception as broken:  # noqa: BLE001  # an exception whose __str__ raises is still only a failed attempt
        return f"(its message cannot be shown: {type(broken).__name__})"


def _printable(text: str) -> str:
    # A lone surrogate cannot be written as UTF-8, and a failure must always be writable.
    return text.encode(errors="replace").decode()
