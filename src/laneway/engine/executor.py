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

import msgspec

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


class Execution(msgspec.Struct, eq=False, gc=False):
    """One attempt in progress: the lease, the handler's task on the loop, its events no store has seen yet.

    It and its handle hold each other only until the handler has ended, so the garbage collector need not know it.
    """

    run: Claimed
    task: Task[..., Any]
    drafts: list[Draft] | tuple[()] = ()  # a list once the handler has a context to add to it
    handle: asyncio.Task[None] | None = None
    stopped: Stop | None = None
    deadline: float = 0.0

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
        if isinstance(self.drafts, list):
            del self.drafts[: len(drafts)]
        return drafts


class Executor:
    """Calls handlers: async ones on the loop, plain ones in threads."""

    def __init__(
        self,
        threads: int,
        result_limit: int,
        buffered: Callable[[Execution], None],
        ended: Callable[[Execution, Outcome], None],
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="laneway-handler")
        self._result_limit = result_limit
        self._buffered, self._ended = buffered, ended

    def close(self) -> None:
        """Take no more handlers; threads that still run go on."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def execute(self, execution: Execution) -> None:
        """Call the handler and tell `ended` its outcome. Raises nothing, whatever the handler does."""
        task = execution.task
        parameters = task.parameters
        try:
            args = parameters.unpack(execution.run.args)
            if parameters.context is not None:
                execution.drafts = drafts = list[Draft]()
                args[parameters.context] = Context(execution.run, drafts, lambda: self._buffered(execution))
            if execution.stopped is not None:
                outcome = self._after_stop(execution)  # before it had begun
            elif task.is_async:
                outcome = self._after_return(execution, await task.function(**args))
            else:
                outcome = self._after_return(execution, await self._in_thread(task.function, args))
        except asyncio.CancelledError as error:
            # Nobody stopped it: the handler let a cancellation of its own escape.
            outcome = self._after_stop(execution) if execution.stopped else Failed(_failure("error", error))
        except BaseException as error:  # noqa: BLE001  # SystemExit in a handler must not end the worker
            outcome = self._after_stop(execution) if execution.stopped else self._after_raise(execution, error)
        self._ended(execution, outcome)

    async def _in_thread(self, function: Callable[..., Any], args: dict[str, Any]) -> Any:
        call = self._pool.submit(contextvars.copy_context().run, _carried, function, args)
        ended = asyncio.wrap_future(call)
        try:
            value = await asyncio.shield(ended)
        except asyncio.CancelledError:
            if call.cancel():
                raise  # it had not begun
            # Python cannot stop a thread. The run is not over, and its lease not free, before the thread is;
            # a second cancellation is the loop closing, and then this process will not wait for it.
            value = await ended
        # What a decorator leaves of an async handler if it knows nothing of async is a plain one that returns this.
        return await value if isawaitable(value) else value

    def _after_return(self, execution: Execution, value: Any) -> Outcome:
        if execution.stopped is not None and execution.stopped is Stop.TIMED_OUT:
            return self._after_stop(execution)
        try:
            return Succeeded(codec.to_json(value, execution.task.result_words, self._result_limit, plural=False))
        except BadArguments as error:
            return Failed(Failure("bad_result", "BadResult", str(error)))

    def _after_raise(self, execution: Execution, error: BaseException) -> Outcome:
        if isinstance(error, _RaisedInThread):
            error = error.error
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
