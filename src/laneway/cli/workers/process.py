"""One worker process: from its start to an orderly end, whatever the handlers do.

A signal starts the stop. A thread handles the signals and limits the time, outside the event loop: neither a handler
that blocks the loop, nor a store that does not answer, nor a thread that does not end may keep the process alive.

A stuck handler starts the stop, too. Only the end of this process frees the lease and the slots of such a run, so the
worker claims no more runs, lets its other handlers end for up to `stuck_drain`, and exits with 1: its supervisor,
systemd or the parent of a fleet, starts another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

from laneway.cli.shell.errors import CONFLICT, FAILED, FINE, leave_now, say
from laneway.cli.shell.formats import spoken
from laneway.cli.shell.output import print_ndjson
from laneway.cli.shell.target import MEMORY
from laneway.cli.workers.lifeline import Lifeline
from laneway.cli.workers.signals import StopSignals, on_signals
from laneway.cli.workers.systemd import notify
from laneway.core.common.addresses import without_password
from laneway.engine.attempts.executor import THREADS
from laneway.errors import StoreMoved

if TYPE_CHECKING:
    from laneway.core.records.status import StuckRun
    from laneway.scheduler import Scheduler

STOP_WITHIN = 30.0  # seconds from the first signal to the end of the process
STOP_NOW_WITHIN = 5.0  # and from the second: the store must still receive the runs that are given back
MARGIN = 1.0  # seconds of these for writing the last results
SHOWN_TASKS = 8


class WorkerProcess:
    """Runs the worker of a scheduler in this process until a signal stops it."""

    def __init__(
        self,
        scheduler: Scheduler,
        app: str,
        concurrency: int | None,
        *,
        as_json: bool,
        attempts: int | None = None,
        lifeline: Lifeline | None = None,
    ) -> None:
        self._scheduler, self._app, self._concurrency, self._as_json = scheduler, app, concurrency, as_json
        self._attempts, self._lifeline = attempts, lifeline
        self._began = time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._working: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._is_ready = False
        self._stuck: set[str] = set()
        self._drains_until: float | None = None  # a stuck handler stopped it, not a signal
        self._left: list[str] = []
        self._moved: StoreMoved | None = None

    def work(self) -> int:
        """Work until a signal comes, or all attempts were made; return the exit code."""
        if self._lifeline is None:
            introduce(self._scheduler, self._app, self._executes)
        run_fast(self._work())
        self._tell_end()
        if _threads_go_on():
            leave_now(self._code)
        return self._code

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        work = self._scheduler.work(
            concurrency=self._concurrency, attempts=self._attempts, ready=self._on_ready, stuck=self._on_stuck
        )
        self._working = self._loop.create_task(work)
        with on_signals(self._handle, self._lifeline):
            try:
                await asyncio.wait([self._working])
                if self._stopping is not None:
                    await asyncio.wait([self._stopping])
                if not self._working.cancelled():
                    self._note_end(self._working)
            finally:
                # Runs that are left behind keep their leases, so the store stays open.
                if not self._left:
                    await self._scheduler.aclose()
            # Otherwise the loop would wait for handlers that ignore their cancellation before it closes, and the
            # interpreter for their threads before it exits.
            if self._left or await _tasks_go_on():
                self._leave()

    # Stopping

    def _handle(self, signals: StopSignals) -> None:
        """Stop in order at the first signal, at once at the second, and exit at the third."""
        allowed: float | None = None
        for patience, within in ((self._patience, STOP_WITHIN), (0.0, STOP_NOW_WITHIN), (None, 0.0)):
            number = signals.receive(allowed)
            if number is None:
                say(f"not everything has ended after {spoken(allowed or 0)}")
                self._leave(FAILED)
            if not number:
                return
            if patience is None:
                leave_now(128 + number)
            busy, allowed = len(self._scheduler.executing), within
            notify("STOPPING=1")
            if patience and busy and self._lifeline is None:
                say(f"stopping: {_runs(busy)} may end within {spoken(patience)}, then what is left is given back")
                say("  Ctrl-C again stops now")
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._stop_as_told, patience)

    def _note_end(self, work: asyncio.Task[None]) -> None:
        """Remember a move of the store, which ends a worker in order; raise any other error."""
        try:
            work.result()
        except StoreMoved as moved:
            self._moved = moved

    @property
    def _patience(self) -> float:
        return max(0.0, STOP_WITHIN - self._scheduler.settings.grace - MARGIN)

    def _stop_as_told(self, patience: float) -> None:
        self._drains_until = None
        self._stop(patience)

    def _on_stuck(self, run: StuckRun) -> None:
        """Claim no more runs, and end when the other handlers have ended."""
        self._print("stuck", run_id=run.run_id, task=run.task, seconds=run.seconds, stack=run.stack)
        if not self._stuck and self._stopping is None:
            self._begin_drain()
        self._stuck.add(run.run_id)
        if self._drains_until is not None:
            # Again for each further one: the stop does not wait for handlers that are stuck.
            self._stop(max(0.0, self._drains_until - time.monotonic()))

    def _begin_drain(self) -> None:
        drain, grace = self._scheduler.settings.stuck_drain, self._scheduler.settings.grace
        others = len(self._scheduler.executing) - 1
        self._drains_until = time.monotonic() + drain
        # Not STOPPING: systemd would start its stop time-out, and kill handlers that may still end.
        notify("STATUS=a handler is stuck; takes no new work, ends when the others have")
        say(
            f"stuck: this worker takes no new work; {_runs(others)} may end within {spoken(drain)}, then it ends with 1"
        )
        # A handler that blocks the loop would prevent this stop.
        last = threading.Timer(drain + grace + STOP_NOW_WITHIN, self._leave)
        last.daemon = True
        last.start()

    def _stop(self, patience: float) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
        self._stopping = asyncio.get_running_loop().create_task(self._stopped(patience))

    async def _stopped(self, patience: float) -> None:
        if self._is_ready:
            self._left = await self._scheduler.stop(patience)
        elif self._working is not None:
            self._working.cancel()  # it is still opening the store: there is no worker to stop yet

    def _leave(self, code: int = FINE) -> NoReturn:
        self._left = self._left or self._scheduler.executing
        self._tell_end()
        leave_now(code or self._code)

    @property
    def _code(self) -> int:
        if self._left or self._stuck:
            return FAILED
        return FINE if self._moved is None else CONFLICT

    # Output

    def _on_ready(self) -> None:
        self._is_ready = True
        tasks, store = sorted(self._scheduler.tasks.names), without_password(self._scheduler.url)
        if self._lifeline is None:
            say(f"ready after {spoken(time.monotonic() - self._began)}; Ctrl-C stops it")
        self._print("ready", pid=os.getpid(), store=store, tasks=tasks, concurrency=self._executes)
        if self._lifeline is None:
            notify("READY=1")
        else:
            self._lifeline.tell_ready()

    def _tell_end(self) -> None:
        if self._left:
            say(f"left behind: {_runs(len(self._left))} whose handlers did not end: {', '.join(self._left)}")
            say(f"  this process ends now, and another worker takes them over; {self._charge}")
        elif self._moved is not None:
            say(f"laneway: {self._moved}")
        elif self._lifeline is None:
            say("stopped")
        self._print("stopped", left=self._left, **({} if self._moved is None else {"moved": self._moved.where}))

    @property
    def _charge(self) -> str:
        if self._stuck.issuperset(self._left):
            return "they end cancelled, or as timed out, as was decided"
        return "that is charged as a crash, unless a cancel or a time-out was decided before"

    def _print(self, event: str, **facts: Any) -> None:
        if self._as_json:
            whose = {} if self._lifeline is None else {"pid": os.getpid()}
            print_ndjson([{"v": 1, "event": event, **whose, **facts}])
            sys.stdout.flush()

    @property
    def _executes(self) -> int:
        return self._concurrency or self._scheduler.settings.concurrency


def introduce(scheduler: Scheduler, app: str, concurrency: int, processes: int | None = None) -> None:
    """Print the app, store, tasks and concurrency of a worker that starts."""
    names, store = sorted(scheduler.tasks.names), without_password(scheduler.url)
    listed = ", ".join(names[:SHOWN_TASKS]) + (f" and {len(names) - SHOWN_TASKS} more" * (len(names) > SHOWN_TASKS))
    say(f"laneway worker for {app}")
    say(f"  store        {store}")
    say(f"  tasks        {listed or 'none are registered, so nothing can be executed'}")
    say(f"  concurrency  {concurrency}" + (f" in each of {processes} processes" if processes else ""))
    if store.startswith(MEMORY):
        say("  memory:// ends with this process, and no other process can submit to it")


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


async def _tasks_go_on() -> bool:
    """Tell whether handlers go on on this loop although their runs were abandoned or lost."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return bool(tasks and (await asyncio.wait(tasks, timeout=MARGIN))[1])


def _threads_go_on() -> bool:
    """Tell whether such handlers go on in threads."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(THREADS)]
    deadline = time.monotonic() + MARGIN
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))  # an idle one ends at once
    return any(thread.is_alive() for thread in threads)


def run_fast(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed, else on asyncio's own loop."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as factory
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


def log_to_stderr(*, verbose: bool) -> None:
    """Log what the engine reports to stderr: warnings, and with `verbose` each run."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logger = logging.getLogger("laneway")
    if not logger.handlers:
        logger.addHandler(handler)
        logger.propagate = logging.getLogger().hasHandlers()
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
