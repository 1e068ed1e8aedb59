"""The watchdog: notices when the event loop stands still, and says where.

An async handler that makes a blocking call stops everything else on its loop: other handlers, claims, time-outs. Only
the renewer's thread goes on, so the worker keeps its leases and nobody takes over. The watchdog asks the loop, from a
thread of its own, to answer; the time that takes is the loop's lag. An answer that does not come within `stall_after`
is a *stall*: it is reported once, while it lasts, with the stack of the loop's thread, and once more when it is over.

It measures this process and not the scheduler's time, so it reads the system's clock and no other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from laneway.core.records.status import LoopLag
from laneway.engine.common import stacks
from laneway.engine.common.threads import on_thread

log = logging.getLogger("laneway.watchdog")

ASK_EVERY = 0.25  # seconds; with this default a stall is noticed at most so much late
MEMORY = 60.0  # seconds for which the worst lag is remembered

RunOf = Callable[["asyncio.Task[Any]"], str | None]


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A loop that stood still for `seconds` so far; `run_id` names the run whose handler it executed, if that is known.

    `stack` is empty if it was over before anybody could look: then the whole process stood still, or code that lets no
    other thread run.
    """

    seconds: float
    stack: str
    run_id: str | None = None


class Watchdog:
    """Watches the loop it is run on.

    `run_of` tells which run a task on the loop belongs to; `stalled` hears of each stall once. Both are called on the
    watchdog's thread.
    """

    def __init__(
        self,
        stall_after: float = 1.0,
        run_of: RunOf = lambda _: None,
        stalled: Callable[[Stall], None] | None = None,
    ) -> None:
        self._stall_after, self._every = stall_after, min(ASK_EVERY, stall_after / 2)
        self._run_of, self._stalled = run_of, stalled
        self._lags: deque[tuple[float, float]] = deque()  # when, and how late; the watchdog's thread adds
        self._asked_at: float | None = None  # a question that has no answer yet

    async def run(self) -> None:
        """Watch the running loop until cancelled, as a service: what ends the thread is raised here."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def watch(stopped: threading.Event) -> None:
            while not stopped.wait(self._every):
                self._ask(loop, thread, stopped)

        try:
            await on_thread("laneway-watchdog", watch)
        finally:
            self._asked_at = None

    @property
    def lag(self) -> LoopLag:
        """How late the loop is; may be asked from any thread."""
        now, asked_at = time.monotonic(), self._asked_at
        # Race: the thread adds and forgets meanwhile; a copy is a snapshot.
        lags = [(at, lag) for at, lag in self._lags.copy() if now - at <= MEMORY]
        pending = now - asked_at if asked_at is not None else 0.0
        latest = max(pending, lags[-1][1] if lags else 0.0)
        return LoopLag(latest, max([latest, *(lag for _, lag in lags)]))

    def _ask(self, loop: asyncio.AbstractEventLoop, thread: int, stopped: threading.Event) -> None:
        answered = _Answer()
        asked_at = self._asked_at = time.monotonic()
        try:
            loop.call_soon_threadsafe(answered.give)
        except RuntimeError:
            stopped.set()  # the loop has closed, and the task that would stop this thread went with it
            return
        reported = not answered.wait(self._stall_after)
        if reported:
            self._report(loop, thread, asked_at)
        while not answered.wait(self._stall_after) and not loop.is_closed():
            pass  # a stall is reported once, however long it is
        if answered.at is None:
            return  # the loop has closed, which ends no stall
        lag = answered.at - asked_at
        self._remember(lag)
        if lag > self._stall_after and not reported:
            self._tell(Stall(seconds=lag, stack=""))
        if lag > self._stall_after:
            log.warning("the event loop goes on after it stood still for %.1f s", lag)

    def _report(self, loop: asyncio.AbstractEventLoop, thread: int, asked_at: float) -> None:
        task = asyncio.current_task(loop)
        run_id = None if task is None else self._run_of(task)
        self._tell(Stall(seconds=time.monotonic() - asked_at, stack=stacks.of_thread(thread), run_id=run_id))

    def _tell(self, stall: Stall) -> None:
        whose = f"; the handler of run {stall.run_id} is on it" if stall.run_id else ""
        where = stall.stack or "  (over before anybody could look: perhaps the whole process stood still)"
        log.error(
            "the event loop has been standing still for %.1f s%s; a call that blocks belongs into a plain handler:\n%s",
            stall.seconds,
            whose,
            where,
        )
        if self._stalled is not None:
            self._stalled(stall)

    def _remember(self, lag: float) -> None:
        now = time.monotonic()
        self._lags.append((now, lag))
        self._asked_at = None
        while now - self._lags[0][0] > MEMORY:
            self._lags.popleft()


class _Answer:
    """What the loop gives when it turns."""

    def __init__(self) -> None:
        self.at: float | None = None
        self._given = threading.Event()

    def give(self) -> None:
        self.at = time.monotonic()
        self._given.set()

    def wait(self, timeout: float) -> bool:
        return self._given.wait(timeout)
