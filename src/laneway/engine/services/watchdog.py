"""The watchdog: notices when the event loop is blocked, and reports where.

An async handler that makes a blocking call stops everything else on its loop: other handlers, claims, time-outs. Only
the renewer's thread goes on, so the worker keeps its leases and nobody takes over. The watchdog sends the loop a probe,
from a thread of its own. The time until the loop runs it is the loop's lag. A probe that is not run within
`stall_after` is a *stall*: it is reported once, while it lasts, with the stack of the loop's thread, and once more when
it is over.

It measures this process, not the scheduler's time, so it reads the system's clock.
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

ASK_EVERY = 0.25  # seconds; a stall is noticed at most so much later
MEMORY = 60.0  # seconds for which the worst lag is remembered

RunOf = Callable[["asyncio.Task[Any]"], str | None]


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A loop that was blocked for `seconds` so far; `run_id` is the run whose handler it was executing, if known.

    `stack` is empty if the stall was over before it could be read: then the whole process stood still, or code that
    lets no other thread run.
    """

    seconds: float
    stack: str
    run_id: str | None = None


class Watchdog:
    """Watches the loop that it runs on.

    `run_of` returns the run that a task on the loop belongs to; `stalled` is called once for each stall. Both are
    called on the watchdog's thread.
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
        self._sent_at: float | None = None  # when the probe was sent that has not run yet

    async def run(self) -> None:
        """Watch the running loop until cancelled, as a service. Raises what ends the thread."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def watch(stopped: threading.Event) -> None:
            while not stopped.wait(self._every):
                self._probe(loop, thread, stopped)

        try:
            await on_thread("laneway-watchdog", watch)
        finally:
            self._sent_at = None

    @property
    def lag(self) -> LoopLag:
        """How late the loop is; any thread may read it."""
        now, sent_at = time.monotonic(), self._sent_at
        # Race: the thread adds and removes meanwhile; a copy is a snapshot.
        lags = [(at, lag) for at, lag in self._lags.copy() if now - at <= MEMORY]
        pending = now - sent_at if sent_at is not None else 0.0
        latest = max(pending, lags[-1][1] if lags else 0.0)
        return LoopLag(latest, max([latest, *(lag for _, lag in lags)]))

    def _probe(self, loop: asyncio.AbstractEventLoop, thread: int, stopped: threading.Event) -> None:
        probe = _Probe()
        sent_at = self._sent_at = time.monotonic()
        try:
            loop.call_soon_threadsafe(probe.run)
        except RuntimeError:
            stopped.set()  # the loop has closed, with the task that would stop this thread
            return
        reported = not probe.wait(self._stall_after)
        if reported:
            self._report_stall(loop, thread, sent_at)
        while not probe.wait(self._stall_after) and not loop.is_closed():
            pass  # a stall is reported once, however long it is
        if probe.at is None:
            return  # the loop has closed, which ends no stall
        lag = probe.at - sent_at
        self._remember(lag)
        if lag > self._stall_after and not reported:
            self._report(Stall(seconds=lag, stack=""))
        if lag > self._stall_after:
            log.warning("the event loop goes on after it stood still for %.1f s", lag)

    def _report_stall(self, loop: asyncio.AbstractEventLoop, thread: int, sent_at: float) -> None:
        task = asyncio.current_task(loop)
        run_id = None if task is None else self._run_of(task)
        self._report(Stall(seconds=time.monotonic() - sent_at, stack=stacks.of_thread(thread), run_id=run_id))

    def _report(self, stall: Stall) -> None:
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
        self._sent_at = None
        while now - self._lags[0][0] > MEMORY:
            self._lags.popleft()


class _Probe:
    """The probe that the loop runs."""

    def __init__(self) -> None:
        self.at: float | None = None
        self._done = threading.Event()

    def run(self) -> None:
        self.at = time.monotonic()
        self._done.set()

    def wait(self, timeout: float) -> bool:
        return self._done.wait(timeout)
