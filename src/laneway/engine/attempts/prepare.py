"""What happens between a claim and the handler: merged messages are combined, and `before_start` is called.

This happens once per run. The arguments that result are saved under the lease before the handler is called, and later
attempts begin with them. If the hook refuses the run, or exceeds the time-out, the run ends. If the worker dies or
stops before the arguments are saved, the next worker does it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from inspect import iscoroutinefunction
from typing import Any

from laneway.core.lifecycle.outcome import REFUSED, Failed, Outcome, outlasted
from laneway.core.records.memos import Recall
from laneway.core.records.run import Failure, Message, MessageKind
from laneway.engine.attempts.running_attempt import RunningAttempt, Stop
from laneway.engine.handlers.context import Context
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.replay import Bounds, ReplayLog, Unwound
from laneway.engine.handlers.results import failure
from laneway.engine.handlers.start_hooks import Args
from laneway.errors import BadArguments

Fetch = Callable[[str, int], Awaitable[list[Message]]]  # a run's id, how many messages of it are known
Remember = Callable[[str], Awaitable[Recall]]  # a run's id


class Preparer:
    """`fetch` and `remember` read a run's messages and memos, `save` saves arguments, `in_thread` calls plain code."""

    def __init__(
        self,
        fetch: Fetch,
        remember: Remember,
        bounds: Bounds,
        save: Callable[[RunningAttempt, str], Future[None]],
        in_thread: Callable[[RunningAttempt, Callable[[], Any]], Awaitable[Any]],
        context: Callable[[RunningAttempt], Context],
        args_limit: int,
    ) -> None:
        self._fetch, self._remember, self._bounds = fetch, remember, bounds
        self._save, self._in_thread, self._context = save, in_thread, context
        self._args_limit = args_limit

    async def prepare(self, attempt: RunningAttempt) -> Outcome | None:
        """Set the run's arguments and inbox as its handler gets them; return an outcome if the run ends here.

        Raises what unwinds the attempt if it was stopped or paused before its handler was called.
        """
        run = attempt.run
        messages = await self._fetch(run.id, 0) if run.messages else []
        steered = [message.args for message in messages if message.kind is MessageKind.STEERED]
        attempt.merged = len(messages) - len(steered)
        if attempt.task.parameters.context is not None:
            attempt.inbox = Inbox()
            attempt.inbox.put(steered)
            if run.memos:
                attempt.replay = ReplayLog(run, self._bounds, await self._remember(run.id))
        if run.prepared is not None:
            run.args = run.prepared
            return None
        if (
            not any(message.kind is MessageKind.MERGED for message in messages)
            and attempt.task.start_hooks.before_start is None
        ):
            return None
        return await self._begin(attempt, messages)

    async def _begin(self, attempt: RunningAttempt, messages: list[Message]) -> Outcome | None:
        run, task = attempt.run, attempt.task
        try:
            args = task.start_hooks.folded(run.args, messages)
        except BaseException as error:  # noqa: BLE001  # whatever it is, even an exit, it is the run's outcome
            return Failed(failure("bad_merge", error))
        if task.start_hooks.before_start is not None:
            if attempt.told_to_stop:
                raise asyncio.CancelledError  # it was stopped before the hook began
            try:
                args = await self._asked(attempt, task.start_hooks.before_start, args)
            except BaseException as error:  # a hook refuses by raising
                if attempt.stopped is not Stop.TIMED_OUT:
                    if isinstance(error, (asyncio.CancelledError, Unwound)):
                        raise
                    return Failed(failure(REFUSED, error))
            if attempt.stopped is Stop.TIMED_OUT:
                return Failed(outlasted(attempt.policy))  # whatever the hook did then
        try:
            run.args = task.parameters.pack(args, self._args_limit)
        except BadArguments as misfit:
            return Failed(Failure("bad_arguments", "BadArguments", str(misfit)))
        await asyncio.wrap_future(self._save(attempt, run.args))
        return None

    async def _asked(self, attempt: RunningAttempt, hook: Callable[[Args, Any], Any], args: Args) -> Args:
        context = self._context(attempt)
        if iscoroutinefunction(hook):
            changed = await hook(args, context)
        else:
            changed = await self._in_thread(attempt, lambda: hook(args, context))
        if changed is None:
            return args
        if not isinstance(changed, dict):
            raise TypeError(f"before_start returned {changed!r}; it must return the arguments, a dict, or None")
        return changed
