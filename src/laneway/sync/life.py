"""A life: one event loop on one daemon thread, from its start to its end, and the blocking calls that it answers.

An iterator or a worker's `with` block lasts longer than a call. It keeps the life in which it began, and does not use
the next one after the end of that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, TypeVar

from laneway.errors import StoreUnavailable, WrongThread
from laneway.sync.call import Call

T = TypeVar("T")
Hook = Callable[[], Awaitable[object]]
log = logging.getLogger("laneway.sync")

CANCEL_WITHIN = 20.0  # seconds that cancelled calls get to end; a worker's takes a grace period
_END: Final = object()


class Life:
    """One loop and its thread, from start to end. `over` is the reason why it takes no more calls, or None."""

    def __init__(self, ended: Callable[[Life], None]) -> None:
        self.over: str | None = None
        self.loop = asyncio.new_event_loop()
        self.hooks: list[Hook] = []
        self._ended = ended
        self._lock = threading.RLock()
        self._calls: set[Call[Any]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._served = False
        self._thread = threading.Thread(target=self._serve, name="laneway-sync", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self.loop.close()
            raise

    # Calls

    def call(
        self, make: Callable[[], Coroutine[Any, Any, T]], within: float | None = None, context: Context | None = None
    ) -> T:
        """Await what `make` returns on the loop, in the caller's context; return its result or raise its error.

        A caller that stops waiting, after `within` seconds or by Ctrl-C, cancels it and does not wait for its end.
        """
        refuse_on_a_loop(self)
        call = Call(make, context or copy_context())
        try:
            self._begin(call)
            if call.wait(within) or not call.give_up(self.loop):
                return call.answer.result()
            raise TimeoutError(f"no answer in {within:g} s; the call was cancelled")
        except BaseException:
            call.give_up(self.loop)
            raise
        finally:
            self._calls.discard(call)

    def iterate(self, make: Callable[[], AsyncGenerator[T, None]], within: float | None = None) -> Iterator[T]:
        """Yield the items of an async generator; the iteration may be abandoned at any point, on any thread."""
        items, context = make(), copy_context()
        try:
            while (item := self.call(partial(_next, items), within, context)) is not _END:
                yield item
        finally:
            self._abandon(items)

    def _begin(self, call: Call[Any]) -> None:
        # First without the lock: in a forked child the thread that holds it may not exist.
        self._check()
        with self._lock:
            self._check()
            self._calls.add(call)
            self.loop.call_soon_threadsafe(call.begin, context=call.context)

    def _check(self) -> None:
        if self.over is not None:
            raise StoreUnavailable(f"the loop behind app.sync {self.over}")

    def _abandon(self, items: AsyncGenerator[Any, None]) -> None:
        """Close the generator, without waiting: the caller may be the garbage collector, on the loop's own thread."""
        if self.over is None:
            with contextlib.suppress(RuntimeError):  # Race: the loop has closed, and all its generators with it
                self.loop.call_soon_threadsafe(self._close_generator, items)

    def _close_generator(self, items: AsyncGenerator[Any, None]) -> None:
        closing = self.loop.create_task(_close(items))
        self._leaving.add(closing)
        closing.add_done_callback(self._leaving.discard)

    # The end

    def end(self, hooks: Sequence[Hook], within: float) -> None:
        """Answer the callers, then end everything; wait for the end, also if another thread began it."""
        with self._lock:
            first = self.over is None
            if first:
                calls = list(self._calls)
                for call in calls:
                    call.cut_off(self.loop)
                self._finish_soon("is being closed", calls, hooks)
        self._thread.join(within)
        if self._thread.is_alive():
            raise TimeoutError(f"app.sync has not closed in {within:g} s; it goes on closing by itself")
        if first and self._failure is not None:
            raise self._failure

    def end_quietly(self, hooks: Sequence[Hook], within: float) -> None:
        """End everything and do not answer the callers: they are daemon threads, and the process ends."""
        with self._lock:
            if self.over is None:
                for call in list(self._calls):
                    call.mute()
                # A task that has not ended in time would be reported by the garbage collector.
                self.loop.set_exception_handler(lambda *_: None)
                self._finish_soon("ended with its process", (), hooks)
        self._thread.join(within)

    def _finish_soon(self, why: str, calls: Sequence[Call[Any]], hooks: Sequence[Hook]) -> None:
        self.over = why

        def finish() -> None:
            self._finishing = self.loop.create_task(self._finish(calls, hooks), name="laneway-sync-close")

        # Invariant: no other thread schedules anything on the loop after this, so every call has begun by then.
        self.loop.call_soon_threadsafe(finish)

    async def _finish(self, calls: Sequence[Call[Any]], hooks: Sequence[Hook]) -> None:
        try:
            # They are cancelled already.
            await _ended([call.task for call in calls if call.task is not None])
            for hook in hooks:
                await self._await_hook(hook)
            rest = asyncio.all_tasks() - {self._finishing}
            for task in rest:
                task.cancel()
            if stuck := await _ended(rest):
                log.warning("app.sync closed with %d tasks that do not stop: %s", len(stuck), stuck)
                self.loop.set_exception_handler(lambda *_: None)  # the warning has said it
            await self.loop.shutdown_asyncgens()
        finally:
            self._served = True
            self.loop.stop()

    async def _await_hook(self, hook: Hook) -> None:
        try:
            await hook()
        except (Exception, asyncio.CancelledError) as error:
            if self._failure is None:
                self._failure = error
            else:
                log.exception("another failure while app.sync closed")

    def _serve(self) -> None:
        try:
            while not self._served:
                # A task that raises one of these also ends `run_forever`. Its caller gets the error; other tasks go on.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()
        finally:
            self.loop.close()
            self.over = "was closed"
            self._ended(self)


def refuse_on_a_loop(life: Life | None) -> None:
    """Raise WrongThread on a thread whose event loop is running."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if life is not None and running is life.loop:
        raise WrongThread("app.sync was called on its own event loop, and would wait for itself; await app's own call")
    raise WrongThread(
        "app.sync was called on a thread whose event loop is running, and would block everything there;"
        " await app's own call, or use asyncio.to_thread"
    )


async def _next(items: AsyncGenerator[Any, None]) -> Any:
    return await anext(items, _END)


async def _close(items: AsyncGenerator[Any, None]) -> None:
    # Race: a step that was just cancelled may still run inside; then its end closes the generator.
    with contextlib.suppress(RuntimeError):
        await items.aclose()


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Wait for cancelled tasks; return those that do not stop."""
    return (await asyncio.wait(tasks, timeout=CANCEL_WITHIN))[1] if tasks else set()
