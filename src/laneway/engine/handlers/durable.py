"""Durable calls: what a handler keeps, asks, calls and leaves behind beyond its attempt.

They are awaited where an event loop runs, and block in a plain handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future
from contextvars import ContextVar, copy_context
from datetime import timedelta
from functools import partial
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from laneway.core.common.instants import duration
from laneway.core.records import codec
from laneway.core.records.memos import Memo
from laneway.core.records.run import Claimed, NewRun
from laneway.engine.handlers.replay import ReplayLog
from laneway.errors import BadSetting

T = TypeVar("T")
ANSWER_WITHIN = timedelta(minutes=120)

_token: ContextVar[str] = ContextVar("laneway_step_token")


class DurableBackend(Protocol):
    """What durable calls need of the attempt, in the worker's process or in a child."""

    @property
    def replay(self) -> ReplayLog:
        """The attempt's replay log."""

    @property
    def pool(self) -> Executor:
        """The threads for plain functions."""

    @property
    def result_limit(self) -> int:
        """How many bytes of JSON one saved value may have."""

    def save(self, state: str) -> Future[None]:
        """Save a checkpoint; the future ends when it is stored, or raises what unwinds the handler."""

    def keep(self, memo: Memo) -> Future[None]:
        """Save a memo, in the same way."""

    def child(self, task: Any, args: Mapping[str, Any], options: Mapping[str, Any]) -> NewRun:
        """Return a checked submission of another run. Raises UnknownTask, BadArguments or BadSetting."""

    def report_reordered(self) -> None:
        """Report that steps come in another order than before."""


class HeldBack:
    """A run that will be submitted when the one that holds it back has succeeded. Until then it does not exist."""

    __slots__ = ("run_id",)

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id

    def __repr__(self) -> str:
        """Show its id."""
        return f"<held-back run {self.run_id}>"

    if not TYPE_CHECKING:  # so a type checker reports an await, and does not ask for one

        def __await__(self) -> NoReturn:
            """Refuse: it cannot start before the handler that would wait for it has ended."""
            raise self.refusal()

    def refusal(self) -> BadSetting:
        """Return the error that says why it cannot be awaited."""
        return BadSetting(
            f"run {self.run_id} is held back until the run that submits it has succeeded;"
            " ctx.call starts a run at once and waits for it"
        )


class DurableCalls:
    """Steps, questions, calls, follow-ups and checkpoints."""

    __slots__ = ("_backend", "_run")
    _run: Claimed
    _backend: DurableBackend

    def checkpoint(self, state: object) -> Any:
        """Save `state` (JSON); the next start of the run finds it in `ctx.state`. If a pause was requested, stop here.

        Awaited where an event loop runs; in a plain handler it blocks until the state is stored.
        """
        backend = self._backend
        text = codec.to_json(state, "the state of a checkpoint", backend.result_limit, plural=False)
        saved = backend.save(text)
        return asyncio.wrap_future(saved) if _on_loop() else saved.result()

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call `function` once and keep its result (JSON): later attempts get the kept result without a call.

        A crash before the result is kept repeats the call; `ctx.step_token` lets the called service recognise that. If
        a pause was requested, the handler stops here. Steps may run concurrently (`asyncio.gather`); those that still
        run when the handler ends are waited for.
        """
        call = partial(function, *args, **kwargs)
        if _on_loop():
            return self._step(name, call, is_async=iscoroutinefunction(function))
        if iscoroutinefunction(function):
            raise _needs_loop(name)
        memo = self._taken(name)
        if memo is None:
            value = _with_token(self._backend.replay.token(name), call)
            if iscoroutine(value):
                value.close()
                raise _needs_loop(name)
            memo = self._backend.replay.taken(name, self._kept(name, value))
            self._backend.keep(memo).result()
            self._backend.replay.keep(memo)
        return codec.from_json(memo.value or "null")

    async def _step(self, name: str, call: Callable[[], Any], *, is_async: bool) -> Any:
        memo = self._taken(name)
        if memo is None:
            with self._backend.replay.concurrent_steps.one():
                memo = await self._take(name, call, is_async=is_async)
        return codec.from_json(memo.value or "null")

    async def _take(self, name: str, call: Callable[[], Any], *, is_async: bool) -> Memo:
        token = self._backend.replay.token(name)
        tokened = partial(_with_token, token, call)
        value, cancelled = (tokened(), None) if is_async else await _in_pool(self._backend.pool, tokened)
        if isawaitable(value):
            value = await _tokened(value, token)
        memo = self._backend.replay.taken(name, self._kept(name, value))
        saved = asyncio.wrap_future(self._backend.keep(memo))
        if cancelled is not None:
            # The result of a thread must be kept, even if its caller was told to stop meanwhile.
            await asyncio.gather(saved, return_exceptions=True)
            raise cancelled
        await saved
        self._backend.replay.keep(memo)
        return memo

    @property
    def step_token(self) -> str:
        """Inside a step: an id that is the same for every try of the step, for idempotency keys."""
        token = _token.get(None)
        if token is None:
            raise BadSetting("ctx.step_token is there inside of a step: in the function that ctx.step calls")
        return token

    def ask(self, question: object, *, name: str | None = None, timeout: timedelta | float = ANSWER_WITHIN) -> Any:
        """Ask a question (JSON) and return the answer. The run waits meanwhile, without holding a slot.

        The handler does not wait here: it is unwound, and starts again from the top when `app.answer` has come. Then
        this call, found by its name or by its place among the questions, returns the answer. After `timeout` without an
        answer the run ends as cancelled.
        """
        length = duration(timeout, "timeout")
        if length == 0:
            raise BadSetting("timeout is 0; give the seconds in which somebody may answer")
        text = codec.to_json(question, "the question", self._backend.result_limit, plural=False)
        ask = partial(self._backend.replay.ask, text, name, length)
        return _soon(ask) if _on_loop() else codec.from_json(ask())

    def call(self, task: Any, args: Mapping[str, Any] | None = None, *, name: str | None = None, **options: Any) -> Any:
        """Start another run and return its result. Raises RunFailed, RunCancelled or RunDropped.

        The run waits meanwhile, as with `ask`. The called run has the same user and names the session, but does not
        queue in it. It is cancelled with this run. `options` are lane and priority.
        """
        for option in options:
            if option not in ("lane", "priority"):
                raise BadSetting.unknown("option of ctx.call", option, ("lane", "name", "priority"))

        def call() -> str:
            return self._backend.replay.call(self._backend.child(task, args or {}, options), name)

        return _soon(call) if _on_loop() else codec.from_json(call())

    def submit(self, task: Any, args: Mapping[str, Any] | None = None, **options: Any) -> HeldBack:
        """Hold back a run: it is submitted in the same write that settles this run as succeeded, else never.

        A plain call. The run has this run's user and its session, unless `session` says otherwise (None: no session).
        `options` are lane, priority, delay, at, session, then and on_failure.
        """
        return HeldBack(self._backend.replay.hold(self._backend.child(task, args or {}, options)))

    def _taken(self, name: str) -> Memo | None:
        replay = self._backend.replay
        memo = replay.step(name)
        if replay.reordered:
            self._backend.report_reordered()
        return memo

    def _kept(self, name: str, value: object) -> str:
        return codec.to_json(value, f"the result of step {name!r}", self._backend.result_limit, plural=False)


def _needs_loop(name: str) -> BadSetting:
    return BadSetting(f"step {name!r}: an async function needs an async handler to be awaited in")


def _with_token(token: str, call: Callable[[], Any]) -> Any:
    before = _token.set(token)
    try:
        return call()
    finally:
        _token.reset(before)


async def _tokened(value: Awaitable[T], token: str) -> T:
    before = _token.set(token)
    try:
        return await value
    finally:
        _token.reset(before)


async def _soon(call: Callable[[], str]) -> Any:
    return codec.from_json(call())


async def _in_pool(pool: Executor, call: Callable[[], T]) -> tuple[T, asyncio.CancelledError | None]:
    """Call in a thread. A caller that is cancelled meanwhile waits for the thread, which cannot be stopped.

    Returns the result and, if the caller was cancelled, the error to raise once the result is kept.
    """
    ended = asyncio.wrap_future(pool.submit(copy_context().run, _carried, call))
    try:
        return await asyncio.shield(ended), None
    except asyncio.CancelledError as cancelled:
        await asyncio.wait((ended,))
        if ended.cancelled() or ended.exception() is not None or isawaitable(ended.result()):
            raise
        return ended.result(), cancelled


def _carried(call: Callable[[], T]) -> T:
    try:
        return call()
    except StopIteration as error:
        # A future cannot carry StopIteration, and its waiter would wait for ever. In a coroutine Python does the same.
        raise RuntimeError("a step raised StopIteration") from error


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
