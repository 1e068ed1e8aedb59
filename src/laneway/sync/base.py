"""What the generated classes stand on: how a call reaches the loop, and how the face is entered, left and closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

from laneway.core.common.instants import SECOND, duration
from laneway.errors import BadSetting
from laneway.sync.life import Hook
from laneway.sync.thread import LoopThread

A = TypeVar("A")
T = TypeVar("T")


class Caller(Protocol):
    """Makes a coroutine on the loop, and waits for what it returns."""

    def __call__(self, make: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """Return or raise what comes of it."""


class SyncPart(Generic[A]):
    """A part of a scheduler, and the way to call it from a thread without a loop."""

    def __init__(self, awaited: A, call: Caller) -> None:
        self._async, self._call = awaited, call


class SyncBase:
    """What `app.sync` has beside the calls of a scheduler.

    Any thread may call it that runs no event loop; one that does gets WrongThread. Ctrl-C cancels the call. `with
    app.sync:` opens the store and, at the end, closes everything.
    """

    def __init__(self, scheduler: Any, forget_worker: Callable[[], None]) -> None:
        # Not typed: the scheduler has this object, so its module imports this one.
        self._scheduler = scheduler
        self._thread = LoopThread(in_child=forget_worker, at_exit=partial(scheduler.stop, 0))
        self._within: float | None = None

    def within(self, timeout: timedelta | float) -> Self:
        """Return the same face with a bound for each call: `app.sync.within(5).submit(...)`.

        A call that has no answer by then is cancelled, and raises TimeoutError; it may have taken effect. Of an
        iterator each step is bounded, of `running` the start.
        """
        bounded = copy(self)
        bounded._within = duration(timeout, "timeout") / SECOND  # noqa: SLF001  # it is one of ours
        return bounded

    def at_close(self, hook: Hook) -> None:
        """Have `hook` called and awaited on the loop by the next `close`, after the worker and before the store.

        For what belongs to that loop, such as a handler's connections. The newest comes first; one that fails does not
        keep the others from their turn.
        """
        if not callable(hook):
            raise BadSetting(f"{hook!r} is no hook; give an async function without parameters")
        self._thread.life().hooks.append(hook)

    def close(self) -> None:
        """Cancel the calls under way, stop working, close the store, end the thread.

        The callers that are cut off get StoreUnavailable, and so do those that call meanwhile. Afterwards everything
        can be used again: the next call starts another thread. Closing twice does nothing.
        """
        self._thread.close(stop=self._scheduler.stop, close=self._scheduler.aclose, within=self._within)

    def __enter__(self) -> Self:
        """Open the store."""
        self._call(self._scheduler.open)
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        self.close()

    def _call(self, make: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        return self._thread.life().call(make, self._within)

    def _iterate(self, make: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
        return self._thread.life().iterate(make, self._within)

    @contextmanager
    def _entered(self, context: AbstractAsyncContextManager[object]) -> Iterator[None]:
        life = self._thread.life()
        life.call(context.__aenter__, self._within)
        try:
            yield
        finally:
            # A life that is over has stopped its worker, or left it in the parent process.
            if life.over is None:
                life.call(lambda: context.__aexit__(None, None, None))
