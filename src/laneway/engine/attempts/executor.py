"""Executes one attempt: calls the handler and returns its outcome. It decides nothing and writes nothing.

Async handlers run on the loop, plain ones in threads, those of `process=True` tasks in child processes. An async
handler without further options is called right in `execute`; the other cases (threads, child processes, quick tries,
validators) go through `_with_options`.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable
from types import MappingProxyType
from typing import Any

from laneway.core.lifecycle.outcome import Cancelled, Failed, Outcome, Paused, Released, Snoozed, Succeeded, timed_out
from laneway.core.records import codec, events
from laneway.core.records.events import Draft, draft
from laneway.core.records.run import Failure, RunLinks
from laneway.engine.attempts.context_backend import AttemptBackend, Shared
from laneway.engine.attempts.event_buffer import AttemptSink, EventBuffer
from laneway.engine.attempts.prepare import Fetch, Preparer, Remember
from laneway.engine.attempts.running_attempt import RunningAttempt, Stop
from laneway.engine.attempts.save_queue import SaveQueue
from laneway.engine.children.pool import ChildPool
from laneway.engine.children.protocol import Checkpoint, Keep
from laneway.engine.client.submissions import SubmissionChecker
from laneway.engine.handlers.context import Context, carried, current
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.replay import Bounds, ReplayLog, Unwound, is_unwound
from laneway.engine.handlers.results import after_raise, after_return, failed, failure, refused_by, wait_of
from laneway.engine.handlers.task import Registry
from laneway.errors import GiveUp, Snooze
from laneway.ports.clock import Clock
from laneway.settings import Settings

THREADS = "laneway-handler"  # prefix of the names of threads for plain handlers


class Executor:
    """Calls handlers. It passes each outcome to `ended`, events to `event_buffer`, and what is to be saved to `saves`.

    `fetch` and `remember` read a run's messages and memos.
    """

    def __init__(
        self,
        clock: Clock,
        settings: Settings,
        registry: Registry,
        saves: SaveQueue,
        event_buffer: EventBuffer,
        ended: Callable[[RunningAttempt, Outcome], None],
        fetch: Fetch,
        remember: Remember,
    ) -> None:
        self._clock = clock
        # One thread for each handler at the same time, which the worker's slots bound. And one more for each abandoned
        # or lost handler that still runs, or the next handler would wait for it.
        self._pool = ThreadPoolExecutor(sys.maxsize, thread_name_prefix=THREADS)
        self._result_limit = settings.result_limit
        self._event_buffer, self._ended, self._saves = event_buffer, ended, saves
        self._bounds = Bounds.of(settings)
        self._children = ChildPool(clock, self._result_limit, self._bounds)
        checker = SubmissionChecker(registry, lambda _: None, self._bounds)
        self._shared = Shared(saves, checker, self._pool, self._result_limit, event_buffer)
        self._preparer = Preparer(
            fetch,
            remember,
            self._bounds,
            lambda attempt, args: saves.add(attempt, prepared=args),
            self._hook_in_thread,
            self._context,
            settings.args_limit,
        )
        self.resources: Mapping[str, Any] = {}

    async def close(self) -> None:
        """Take no more handlers. Threads that still run go on; child processes end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        await self._children.close()

    async def execute(self, attempt: RunningAttempt) -> None:
        """Call the handler and pass its outcome to `ended`. Raises nothing, whatever the handler does."""
        task, run = attempt.task, attempt.run
        parameters = task.parameters
        try:
            args = parameters.unpack(run.args)
            if run.ties is not None:
                _carry(run.ties)
            if parameters.context is not None:
                attempt.replay = attempt.replay or ReplayLog(run, self._bounds)
                args[parameters.context] = self._context(attempt)
            if attempt.stopped is not None:
                outcome = self._after_stop(attempt)  # it was stopped before it began
            elif task.is_simple:
                outcome = self._after_return(attempt, await task.function(**args))
            else:
                outcome = await self._with_options(attempt, args)
        except asyncio.CancelledError as error:
            # Nobody stopped it: a cancellation inside the handler escaped.
            outcome = self._after_stop(attempt) if attempt.stopped else failed(error)
        except BaseException as error:  # noqa: BLE001  # SystemExit in a handler must not end the worker
            outcome = self._after_stop(attempt) if attempt.stopped else self._after_raise(attempt, error)
        if attempt.replay is not None:
            outcome = await self._finished(attempt, attempt.replay, outcome)
        self._ended(attempt, outcome)

    async def _finished(self, attempt: RunningAttempt, replay: ReplayLog, outcome: Outcome) -> Outcome:
        """Return the final outcome, with follow-ups, once no concurrent step of the attempt runs any more."""
        replay.concurrent_steps.over = True
        if replay.concurrent_steps:
            await replay.concurrent_steps.end(cancel=attempt.told_to_stop)
            if attempt.stopped is Stop.TIMED_OUT:
                outcome = self._after_stop(attempt)  # the time-out is stored by now
        return replay.after(outcome)

    async def prepare_and_execute(self, attempt: RunningAttempt) -> None:
        """Do what comes before the handler's call, then execute the attempt. Raises nothing either."""
        outcome: Outcome | None
        try:
            if attempt.run.ties is not None:
                _carry(attempt.run.ties)
            outcome = await self._preparer.prepare(attempt)
            if outcome is not None and attempt.stopped not in (None, Stop.TIMED_OUT):
                outcome = self._after_stop(attempt)  # a hook that was told to stop does not refuse the run
        except BaseException as error:  # noqa: BLE001  # as in `execute`
            outcome = self._after_stop(attempt) if attempt.stopped else failed(error)
        if outcome is None:
            await self.execute(attempt)
        else:
            self._ended(attempt, outcome)

    def _context(self, attempt: RunningAttempt) -> Context:
        attempt.drafts = list[Draft](attempt.drafts)  # it may have events already, if it was stopped before it began
        if attempt.inbox is None:
            attempt.inbox = Inbox()
        backend = AttemptBackend(attempt, self._shared, attempt.replay)
        context = Context(attempt.run, AttemptSink(self._event_buffer, attempt), _nothing, backend)
        current.set(context)
        return context

    # Handlers with options, in threads and in child processes

    async def _with_options(self, attempt: RunningAttempt, args: dict[str, Any]) -> Outcome:
        task = attempt.task
        args.update({name: self.resources[name] for name in task.parameters.resources})
        call_options = task.call_options
        for left in reversed(range(call_options.tries)):
            try:
                outcome = await self._call_once(attempt, args)
            except FailedInChild as error:
                if not left:
                    return error.outcome
                await self._wait(attempt, error.outcome.failure, error.wait)
            except Exception as error:
                cause = error.error if isinstance(error, Raised) else error
                decided = isinstance(cause, (GiveUp, Snooze)) or not isinstance(cause, call_options.transient)
                if decided or not left or attempt.stopped is not None:
                    raise
                await self._wait(attempt, failure("error", cause), wait_of(cause))
            else:
                return outcome
        raise AssertionError("the last try returns or raises")

    async def _call_once(self, attempt: RunningAttempt, args: dict[str, Any]) -> Outcome:
        task = attempt.task
        if task.call_options.process:
            outcome = await self._in_child(attempt)
        elif task.is_async:
            outcome = self._after_return(attempt, await task.function(**args))
        else:
            outcome = self._after_return(attempt, await self._in_thread(attempt, lambda: task.function(**args)))
        if task.call_options.validate is not None and isinstance(outcome, Succeeded):
            return await self._validated(task.call_options.validate, outcome)
        return outcome

    async def _wait(self, attempt: RunningAttempt, error: Failure, wait: float | None) -> None:
        """Wait before the next quick try: as long as the error says, or the task."""
        if attempt.inbox is not None:
            attempt.inbox.note(0)  # the next try begins at the top, and reads messages again
        if attempt.replay is not None:
            await attempt.replay.concurrent_steps.end(cancel=attempt.told_to_stop)
            if attempt.stopped is not None:
                raise asyncio.CancelledError  # it was stopped meanwhile, so there is no next try
            attempt.replay.begin()
        seconds = attempt.task.call_options.wait if wait is None else wait
        text = f"{error.type}: {error.message}; trying again in {seconds:g} s"
        self._event_buffer.add(attempt, draft(events.LOG, {"text": text}))
        await self._clock.sleep(seconds)

    async def _validated(self, validate: Callable[[Any], Any], outcome: Succeeded) -> Outcome:
        try:
            verdict = validate(codec.from_json(outcome.result))
            verdict = await verdict if isawaitable(verdict) else verdict
        except Exception as error:  # noqa: BLE001  # a validator refuses by raising
            return Failed(refused_by(error))
        if verdict is False:
            return Failed(Failure("bad_output", "BadOutput", "the validator refused the result"))
        return outcome

    async def _hook_in_thread(self, attempt: RunningAttempt, call: Callable[[], Any]) -> Any:
        """Call a hook in a thread, and raise what it raises."""
        try:
            return await self._in_thread(attempt, call)
        except Raised as raised:
            raise raised.error from None

    async def _in_thread(self, attempt: RunningAttempt, call: Callable[[], Any]) -> Any:
        context = contextvars.copy_context()
        called = self._pool.submit(context.run, _carried, attempt, call)
        ended = asyncio.wrap_future(called)
        try:
            value = await asyncio.shield(ended)
        except asyncio.CancelledError:
            if called.cancel():
                raise  # the call had not begun
            # Python cannot stop a thread. The run is over, and its lease free, only when the thread has ended. A second
            # cancellation means that the loop closes: then this process does not wait for the thread.
            value = await ended
        # A decorator that does not know async turns an async handler into a plain one that returns an awaitable.
        return await value if isawaitable(value) else value

    async def _in_child(self, attempt: RunningAttempt) -> Outcome:
        def add_draft(said: Draft) -> None:
            self._event_buffer.add(attempt, said, own=True)

        async def saved(what: Checkpoint | Keep) -> bool:
            try:
                if isinstance(what, Checkpoint):
                    await asyncio.wrap_future(self._saves.add(attempt, state=what.state))
                else:
                    await asyncio.wrap_future(self._saves.add(attempt, memo=what.memo))
                    replay.keep(what.memo)
            except Unwound:
                return False
            return True

        task, run = attempt.task, attempt.run
        replay = attempt.replay or ReplayLog(run, self._bounds)
        attempt.child = child = self._children.attempt(
            task.function,
            run,
            add_draft,
            saved,
            inbox=attempt.inbox,
            recall=replay.recall,
            carried=carried.get(),
            transient=task.call_options.transient,
        )
        try:
            outcome = await child.outcome()
        finally:
            attempt.child = None
        # An attempt that was stopped before its end has not failed, whatever it raised on its way out.
        if outcome is None or attempt.stopped is Stop.TIMED_OUT or (attempt.stopped and _is_raised(outcome)):
            return self._after_stop(attempt)
        if child.passing is not None and isinstance(outcome, Failed):
            raise FailedInChild(outcome, child.passing.retry_after)
        return outcome

    # Endings

    def _after_return(self, attempt: RunningAttempt, value: Any) -> Outcome:
        if attempt.stopped is Stop.TIMED_OUT:
            return self._after_stop(attempt)
        if attempt.replay is not None and attempt.replay.waits:
            return attempt.replay.outcome()  # the handler caught the exception that unwinds it
        return after_return(attempt.task, value, self._result_limit)

    def _after_raise(self, attempt: RunningAttempt, error: BaseException) -> Outcome:
        error = error.error if isinstance(error, Raised) else error
        if attempt.replay is not None and attempt.replay.waits and is_unwound(error):
            return attempt.replay.outcome()
        return after_raise(attempt.task, attempt.run.args, error)

    def _after_stop(self, attempt: RunningAttempt) -> Outcome:
        stopped = attempt.stopped
        if stopped is Stop.TIMED_OUT:
            return Failed(timed_out(attempt.policy))
        if stopped is Stop.CANCELLED:
            return Cancelled()
        return Paused() if stopped is Stop.PAUSED else Released()


def _nothing() -> None:
    pass


def _carry(ties: RunLinks) -> None:
    if ties.trace:
        carried.set(MappingProxyType({**carried.get(), **ties.trace}))


def _is_raised(outcome: Outcome) -> bool:
    return isinstance(outcome, Snoozed) or (isinstance(outcome, Failed) and outcome.failure.kind != "bad_result")


class FailedInChild(Exception):
    """A handler raised one of its transient errors in a child process. The error itself stays there."""

    def __init__(self, outcome: Failed, wait: float | None) -> None:
        super().__init__(outcome.failure.message)
        self.outcome, self.wait = outcome, wait


class Raised(Exception):
    """Wraps an exception from a handler's thread: a future cannot carry StopIteration, a coroutine cannot raise it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _carried(attempt: RunningAttempt, call: Callable[[], Any]) -> Any:
    attempt.thread = threading.get_ident()
    try:
        return call()
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is the attempt's outcome
        raise Raised(error) from None
    finally:
        attempt.thread = None
