"""Executing one attempt: call the handler, say what it ended in. It decides nothing and writes nothing.

Async handlers run on the loop, plain ones in threads, those of `process=True` tasks in child processes. The plainest
case, an async handler that is called once and returns, takes the shortest way through `execute`; everything else (other
places, quick tries, validators) goes through `_carefully`.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import isawaitable
from typing import Any

from laneway.core import codec, events
from laneway.core.events import Draft, draft
from laneway.core.outcome import Cancelled, Failed, Outcome, Paused, Released, Snoozed, Succeeded, timed_out
from laneway.core.run import Failure
from laneway.engine.children import Children
from laneway.engine.context import Context, Unwound, carried, current
from laneway.engine.endings import after_raise, after_return, failed, failure, refused_by, wait_of
from laneway.engine.execution import Execution, Stop
from laneway.engine.inbox import Inbox
from laneway.engine.preparing import Fetch, Preparing
from laneway.errors import GiveUp, Snooze
from laneway.ports.clock import Clock

THREADS = "laneway-handler"  # how the names of threads begin that execute plain handlers


class Link:
    """What a context needs of its attempt: whether it shall stop, and a way to save a checkpoint."""

    __slots__ = ("_execution", "_save")

    def __init__(self, execution: Execution, save: Callable[[Execution, str], Future[None]]) -> None:
        self._execution, self._save = execution, save

    @property
    def cancelled(self) -> bool:
        """Whether the handler shall stop."""
        return self._execution.stopped is not None

    @property
    def inbox(self) -> Inbox:
        """The messages that came for the run."""
        assert self._execution.inbox is not None  # made with the context
        return self._execution.inbox

    def save(self, state: str) -> Future[None]:
        """Save a checkpoint; the future ends when it is stored, and raises Unwound if the handler is not to go on."""
        return self._save(self._execution, state)


class Executor:
    """Calls handlers. `ended` hears of each outcome, `buffered` of events, `save` of checkpoints."""

    def __init__(
        self,
        clock: Clock,
        result_limit: int,
        buffered: Callable[[Execution], None],
        ended: Callable[[Execution, Outcome], None],
        save: Callable[[Execution, str | None, str | None], Future[None]],
        fetch: Fetch,
        args_limit: int,
    ) -> None:
        self._clock = clock
        # As many threads as there are handlers at once, which the worker's slots bound; and one more for each that was
        # abandoned or lost with its run and goes on, or the next would wait for it.
        self._pool = ThreadPoolExecutor(sys.maxsize, thread_name_prefix=THREADS)
        self._children = Children(clock, result_limit)
        self._result_limit = result_limit
        self._buffered, self._ended = buffered, ended
        self._save: Callable[[Execution, str], Future[None]] = lambda execution, state: save(execution, state, None)
        self._preparing = Preparing(
            fetch,
            lambda execution, args: save(execution, None, args),
            self._beside,
            self._context,
            args_limit,
        )
        self.resources: Mapping[str, Any] = {}

    async def close(self) -> None:
        """Take no more handlers; threads that still run go on, children end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        await self._children.close()

    async def execute(self, execution: Execution) -> None:
        """Call the handler and tell `ended` its outcome. Raises nothing, whatever the handler does."""
        task = execution.task
        parameters = task.parameters
        try:
            args = parameters.unpack(execution.run.args)
            if parameters.context is not None:
                args[parameters.context] = self._context(execution)
            if execution.stopped is not None:
                outcome = self._after_stop(execution)  # before it had begun
            elif task.is_simple:
                outcome = self._after_return(execution, await task.function(**args))
            else:
                outcome = await self._carefully(execution, args)
        except asyncio.CancelledError as error:
            # Nobody stopped it: the handler let a cancellation of its own escape.
            outcome = self._after_stop(execution) if execution.stopped else failed(error)
        except BaseException as error:  # noqa: BLE001  # SystemExit in a handler must not end the worker
            outcome = self._after_stop(execution) if execution.stopped else self._after_raise(execution, error)
        self._ended(execution, outcome)

    async def prepare_and_execute(self, execution: Execution) -> None:
        """Do what has to be done before the handler is called, then execute it. Raises nothing either."""
        outcome: Outcome | None
        try:
            outcome = await self._preparing.prepare(execution)
            if outcome is not None and execution.stopped is not None:
                outcome = self._after_stop(execution)  # a hook that was told to stop has not refused the run
        except BaseException as error:  # noqa: BLE001  # as in `execute`
            outcome = self._after_stop(execution) if execution.stopped else failed(error)
        if outcome is None:
            await self.execute(execution)
        else:
            self._ended(execution, outcome)

    def _context(self, execution: Execution) -> Context:
        execution.drafts = drafts = list[Draft](execution.drafts)  # it may have been told to stop before it began
        if execution.inbox is None:
            execution.inbox = Inbox()
        context = Context(execution.run, drafts, lambda: self._buffered(execution), Link(execution, self._save))
        current.set(context)
        return context

    # What is not simple

    async def _carefully(self, execution: Execution, args: dict[str, Any]) -> Outcome:
        task = execution.task
        args.update({name: self.resources[name] for name in task.parameters.resources})
        manner = task.manner
        for left in reversed(range(manner.tries)):
            try:
                outcome = await self._in_its_place(execution, args)
            except FailedInChild as told:
                if not left:
                    return told.outcome
                await self._wait(execution, told.outcome.failure, told.wait)
            except Exception as error:
                cause = error.error if isinstance(error, Raised) else error
                decided = isinstance(cause, (GiveUp, Snooze)) or not isinstance(cause, manner.transient)
                if decided or not left or execution.stopped is not None:
                    raise
                await self._wait(execution, failure("error", cause), wait_of(cause))
            else:
                return outcome
        raise AssertionError("the last try returns or raises")

    async def _in_its_place(self, execution: Execution, args: dict[str, Any]) -> Outcome:
        task = execution.task
        if task.manner.process:
            outcome = await self._in_child(execution)
        elif task.is_async:
            outcome = self._after_return(execution, await task.function(**args))
        else:
            outcome = self._after_return(execution, await self._in_thread(execution, lambda: task.function(**args)))
        if task.manner.validate is not None and isinstance(outcome, Succeeded):
            return await self._validated(task.manner.validate, outcome)
        return outcome

    async def _wait(self, execution: Execution, error: Failure, wait: float | None) -> None:
        """Wait as long as the error said, or the task, before the next quick try."""
        if execution.inbox is not None:
            execution.inbox.note(0)  # the next try begins at the top, and so must what it reads
        seconds = execution.task.manner.wait if wait is None else wait
        told = f"{error.type}: {error.message}; trying again in {seconds:g} s"
        execution.say(draft(events.LOG, {"text": told}))
        self._buffered(execution)
        await self._clock.sleep(seconds)

    async def _validated(self, validate: Callable[[Any], Any], outcome: Succeeded) -> Outcome:
        try:
            verdict = validate(codec.from_json(outcome.result))
            verdict = await verdict if isawaitable(verdict) else verdict
        except Exception as error:  # noqa: BLE001  # that is how a validator says no
            return Failed(refused_by(error))
        if verdict is False:
            return Failed(Failure("bad_output", "BadOutput", "the validator refused the result"))
        return outcome

    async def _beside(self, execution: Execution, call: Callable[[], Any]) -> Any:
        """Call in a thread what is not the handler, and raise what it raises."""
        try:
            return await self._in_thread(execution, call)
        except Raised as raised:
            raise raised.error from None

    async def _in_thread(self, execution: Execution, call: Callable[[], Any]) -> Any:
        context = contextvars.copy_context()
        called = self._pool.submit(context.run, _carried, execution, call)
        ended = asyncio.wrap_future(called)
        try:
            value = await asyncio.shield(ended)
        except asyncio.CancelledError:
            if called.cancel():
                raise  # it had not begun
            # Python cannot stop a thread. The run is not over, and its lease not free, before the thread is;
            # a second cancellation is the loop closing, and then this process will not wait for it.
            value = await ended
        # What a decorator leaves of an async handler if it knows nothing of async is a plain one that returns this.
        return await value if isawaitable(value) else value

    async def _in_child(self, execution: Execution) -> Outcome:
        def heard(said: Draft) -> None:
            execution.say(said)
            self._buffered(execution)

        async def saved(state: str) -> bool:
            try:
                await asyncio.wrap_future(self._save(execution, state))
            except Unwound:
                return False
            return True

        task, run = execution.task, execution.run
        execution.child = child = self._children.execution(
            task.function,
            run,
            heard,
            saved,
            inbox=execution.inbox,
            carried=carried.get(),
            transient=task.manner.transient,
        )
        try:
            outcome = await child.outcome()
        finally:
            execution.child = None
        # One that was stopped and did not get to its end has not failed, whatever it raised on its way out.
        if outcome is None or execution.stopped is Stop.TIMED_OUT or (execution.stopped and _is_raised(outcome)):
            return self._after_stop(execution)
        if child.passing is not None and isinstance(outcome, Failed):
            raise FailedInChild(outcome, child.passing.retry_after)
        return outcome

    # Endings

    def _after_return(self, execution: Execution, value: Any) -> Outcome:
        if execution.stopped is not None and execution.stopped is Stop.TIMED_OUT:
            return self._after_stop(execution)
        return after_return(execution.task, value, self._result_limit)

    def _after_raise(self, execution: Execution, error: BaseException) -> Outcome:
        return after_raise(execution.task, execution.run.args, error.error if isinstance(error, Raised) else error)

    def _after_stop(self, execution: Execution) -> Outcome:
        stopped = execution.stopped
        if stopped is Stop.TIMED_OUT:
            return Failed(timed_out(execution.task.policy))
        if stopped is Stop.CANCELLED:
            return Cancelled()
        return Paused() if stopped is Stop.PAUSED else Released()


def _is_raised(outcome: Outcome) -> bool:
    return isinstance(outcome, Snoozed) or (isinstance(outcome, Failed) and outcome.failure.kind != "bad_result")


class FailedInChild(Exception):
    """A handler raised one of its transient errors in a child process, where the error itself stays."""

    def __init__(self, outcome: Failed, wait: float | None) -> None:
        super().__init__(outcome.failure.message)
        self.outcome, self.wait = outcome, wait


class Raised(Exception):
    """What a handler raised in its thread, wrapped: a future cannot carry StopIteration, nor a coroutine raise it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _carried(execution: Execution, call: Callable[[], Any]) -> Any:
    execution.thread = threading.get_ident()
    try:
        return call()
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is the attempt's outcome
        raise Raised(error) from None
    finally:
        execution.thread = None
