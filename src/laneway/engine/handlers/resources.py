"""Resources: what handlers share while their worker works, such as a pooled client.

Each is opened when the worker starts, on its loop, and closed when it has stopped. A handler's parameter of that name
receives it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from types import TracebackType
from typing import Any

from laneway.core.common.checks import checked_name
from laneway.errors import BadSetting, LanewayError

log = logging.getLogger("laneway.worker")


class Resources:
    """The resources of one scheduler, by name."""

    def __init__(self) -> None:
        self._makers: dict[str, Callable[[], Any]] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of all resources."""
        return frozenset(self._makers)

    def add(self, function: Callable[[], Any]) -> None:
        """Register a resource under its function's name."""
        name = checked_name(getattr(function, "__name__", None), "resource")
        if name in self._makers:
            raise BadSetting(f"resource {name!r} is registered twice; give one of the functions another name")
        if not name.isidentifier() or inspect.signature(function).parameters:
            raise BadSetting(f"resource {name!r}: write a function without parameters that yields or returns it")
        self._makers[name] = function

    @asynccontextmanager
    async def opened(self, close_within: float) -> AsyncIterator[Mapping[str, Any]]:
        """Open all, in the order of registration; close them in reverse order.

        Closing is given up after so many seconds: a worker must end.
        """
        stack = AsyncExitStack()
        try:
            yield {name: await self._opened(stack, name) for name in self._makers}
        except BaseException as error:
            with _at_most(close_within):
                await stack.__aexit__(type(error), error, error.__traceback__)
            raise
        with _at_most(close_within):
            await stack.aclose()

    async def _opened(self, stack: AsyncExitStack, name: str) -> Any:
        own = AsyncExitStack()
        stack.push_async_exit(partial(_closed, name, own))
        try:
            return await _entered(own, self._makers[name])
        except Exception as error:
            raise _cannot_be("opened", name, error) from error


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Cancel what the block awaits after so many seconds, and go on, all in this task, as some contexts require."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    over = False

    def give_up() -> None:
        nonlocal over
        over = True
        task.cancel()

    timer = loop.call_later(seconds, give_up)
    try:
        yield
    except asyncio.CancelledError:
        if not over:
            raise
        task.uncancel()
        log.warning("a resource has not closed within %g s; going on without it", seconds)
    finally:
        timer.cancel()


async def _entered(stack: AsyncExitStack, maker: Callable[[], Any]) -> Any:
    if inspect.isasyncgenfunction(maker):
        return await stack.enter_async_context(asynccontextmanager(maker)())
    if inspect.isgeneratorfunction(maker):
        return stack.enter_context(contextmanager(maker)())
    made = maker()
    if hasattr(made, "__aenter__"):
        return await stack.enter_async_context(made)
    return await made if inspect.isawaitable(made) else made


async def _closed(
    name: str,
    own: AsyncExitStack,
    kind: type[BaseException] | None,
    why: BaseException | None,
    traceback: TracebackType | None,
) -> bool | None:
    try:
        return await own.__aexit__(kind, why, traceback)
    except Exception as error:
        if error is why:
            raise  # it came from elsewhere and only passes through
        raise _cannot_be("closed", name, error) from error


def _cannot_be(done: str, name: str, error: Exception) -> LanewayError:
    return LanewayError(f"resource {name!r} cannot be {done}: {type(error).__name__}: {error}")
