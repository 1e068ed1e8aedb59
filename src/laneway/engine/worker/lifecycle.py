"""A scheduler at work: it has at most one worker, on one loop, and can stop it from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from laneway.core.common.checks import checked_count
from laneway.core.common.instants import LONGEST, SECOND, duration
from laneway.core.records.status import Status, StuckRun
from laneway.engine.attempts.subscribers import Subscribers
from laneway.engine.config.watcher import FileWatch
from laneway.engine.handlers.import_path import refuse_inside_child
from laneway.engine.handlers.resources import Resources
from laneway.engine.handlers.task import Registry
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.worker.attempt_quota import AttemptQuota
from laneway.engine.worker.worker import Worker
from laneway.errors import BadSetting
from laneway.ports.clock import Clock
from laneway.ports.store import Store
from laneway.settings import Settings


class WorkerLifecycle:
    """The worker of a scheduler, if it has one. `open_` opens the scheduler's store, `is_open` tells if it is open."""

    def __init__(
        self,
        open_: Callable[[], Awaitable[Store]],
        is_open: Callable[[], bool],
        *,
        tasks: Registry,
        resources: Resources,
        clock: Clock,
        settings: Settings,
        load: Callable[[str], bool | None] | None,
        subscribers: Subscribers,
        environment: JobEnvironment,
        file: FileWatch | None = None,
    ) -> None:
        self._load, self._subscribers, self._environment, self._file = load, subscribers, environment, file
        self._open, self._is_open = open_, is_open
        self._tasks, self._resources, self._clock, self._settings = tasks, resources, clock, settings
        self.worker: Worker | None = None
        self._work: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def work(
        self,
        store: Store,
        *,
        until_drained: bool = False,
        concurrency: int | None = None,
        attempts: int | None = None,
        ready: Callable[[], None] | None = None,
        stuck: Callable[[StuckRun], None] | None = None,
    ) -> Mapping[str, int]:
        """Execute runs of `store` until stopped, drained or cancelled; return how the attempts were settled."""
        if attempts is not None:
            checked_count(attempts, "attempts")
        refuse_inside_child()
        loop = asyncio.get_running_loop()
        if self._loop is not None and not self._loop.is_closed():
            raise BadSetting("this scheduler is working already; stop it first, or use another one")
        settings = self._settings if concurrency is None else replace(self._settings, concurrency=concurrency)
        self._loop = loop
        try:
            with_what = (self._resources, stuck, self._load, self._subscribers, self._environment, self._file)
            allowed = self._allowed(store, attempts)
            worker = Worker(allowed, self._tasks, self._clock, settings, *with_what)
            work = asyncio.create_task(self._opened_and_run(worker, until_drained=until_drained, ready=ready))
            self.worker, self._work = worker, work
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await worker.stop(0, settings.grace)
                if not self._is_open():
                    work.cancel()  # it is still opening the store
                await asyncio.wait([work])
                raise
            return worker.moves
        finally:
            self.forget()

    @asynccontextmanager
    async def running(self, store: Store, concurrency: int | None) -> AsyncIterator[None]:
        """Work inside the `async with` block."""
        started = asyncio.Event()
        work = asyncio.create_task(self.work(store, concurrency=concurrency, ready=started.set), name="laneway-work")
        waiter = asyncio.create_task(started.wait())
        try:
            await asyncio.wait((work, waiter), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            yield
        finally:
            waiter.cancel()
            if started.is_set():
                await self.stop()
            else:
                work.cancel()
            await asyncio.gather(work, return_exceptions=not started.is_set())

    async def stop(self, timeout: timedelta | float = 30) -> list[str]:
        """Stop the worker, on whatever loop it is; return the ids of the runs that it leaves behind."""
        seconds = duration(timeout, "timeout") / SECOND
        worker, work, loop = self.worker, self._work, self._loop
        if worker is None or work is None or loop is None:
            return []
        if loop is not asyncio.get_running_loop():
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.stop(timeout), loop))
        stopping = asyncio.create_task(worker.stop(seconds, self._settings.grace if seconds else 0))
        if worker.is_inside():
            # The handler would wait for itself.
            self._stopping = stopping
            return worker.executing
        await stopping
        await asyncio.wait([work])
        return worker.executing

    @property
    def executing(self) -> list[str]:
        """The ids of the runs that are being executed; any thread may read it."""
        worker = self.worker
        return [] if worker is None else worker.executing

    def status(self) -> Status:
        """Return the worker's status; any thread may call it."""
        worker = self.worker
        return Status(running=False) if worker is None else worker.status()

    def forget(self) -> None:
        """Forget the worker: it has ended, or belongs to the parent process of this forked child."""
        self.worker = self._work = self._loop = None

    def _allowed(self, store: Store, attempts: int | None) -> Store:
        if attempts is None:
            return store
        ending: list[asyncio.Task[None]] = []

        def spent() -> None:
            if self.worker is not None:
                # Kept here, because the loop keeps only weak references to tasks.
                ending.append(asyncio.create_task(self.worker.stop(LONGEST / SECOND)))

        return cast("Store", AttemptQuota(store, attempts, spent))

    async def _opened_and_run(self, worker: Worker, **how: Any) -> None:
        await self._open()
        await worker.run(**how)
