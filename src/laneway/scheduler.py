"""The Scheduler: what users hold. It turns a URL into a store and settings into an engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar, overload

import msgspec

from laneway.core.events import Event
from laneway.core.instants import SECOND, duration, micros
from laneway.core.policy import PRIORITIES, Lane, SessionPolicy, TaskPolicy, checked_count, checked_name
from laneway.core.retry import Retry
from laneway.core.run import NewRun, Receipt, Run, RunFilter
from laneway.core.states import RunState
from laneway.engine.client import Client
from laneway.engine.clock import SystemClock
from laneway.engine.ids import new_run_id
from laneway.engine.tasks import Registry, Task
from laneway.engine.worker import Worker
from laneway.errors import BadSetting, BadURL
from laneway.ports.clock import Clock
from laneway.ports.store import Store
from laneway.settings import DEFAULT_URL, Settings
from laneway.stores.memory import MemoryStore
from laneway.sync import Sync

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = Task[..., Any]
DEFAULT_RETRY = Retry()
TASK_OPTIONS = ("name", "lane", "timeout", "retry", "max_crashes")
_NO_OPTIONS: Mapping[str, Any] = {}
SUBMIT_OPTIONS = ("user", "session", "priority", "delay", "at", "lane", "session_policy")


class Submission(msgspec.Struct, frozen=True):
    """One item for `submit_many`: a task, its arguments, and the options of `submit`."""

    task: Any
    args: Mapping[str, Any] = {}
    user: str | None = None
    session: str | None = None
    priority: int = 0
    delay: timedelta | float = 0
    at: datetime | None = None
    lane: str | None = None
    session_policy: SessionPolicy | None = None


class Scheduler:
    """Accepts runs now and executes them later.

    `url` says where they are kept: `sqlite:///laneway.db` by default, or what `LANEWAY_STORE` says; `memory://` for
    tests. The store is opened by the first call, on whatever loop that comes from. `lanes` adds or changes lanes; the
    other settings are those of `laneway.settings.Settings`. `sync` has every call, blocking.
    """

    def __init__(
        self, url: str | None = None, *, lanes: Iterable[Lane] = (), clock: Clock | None = None, **settings: Any
    ) -> None:
        self.url = url if url is not None else os.environ.get("LANEWAY_STORE") or DEFAULT_URL
        self.settings = Settings.of(settings)
        self.tasks = Registry()
        self._clock = clock or SystemClock()
        self._declared = tuple(lanes)
        self._store = store_at(self.url, self._clock, self.settings)
        self._client = Client(self._store, self._clock)
        self._opened = False
        self._worker: Worker | None = None
        self._work: asyncio.Task[None] | None = None
        self._working_on: asyncio.AbstractEventLoop | None = None
        # Made now and not when it is first asked for: threads that ask at the same moment must get the same loop.
        self.sync: Sync[AnyTask, Submission] = Sync(self, self._forget_worker)

    # Tasks

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        lane: str = "main",
        timeout: timedelta | float | None = None,
        retry: Retry | int | None = DEFAULT_RETRY,
        max_crashes: int = 3,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    def task(  # type: ignore[misc]  # mypy takes the ParamSpec of the decorator it returns for parameters
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        lane: str = "main",
        timeout: timedelta | float | None = None,
        retry: Retry | int | None = DEFAULT_RETRY,
        max_crashes: int = 3,
        **unknown: Any,
    ) -> Any:
        """Register a handler: `@app.task(lane=..., timeout=...)`; the function can still be called."""
        for option in unknown:
            raise BadSetting.unknown("option of @app.task", option, TASK_OPTIONS)
        if self._worker is not None:
            raise BadSetting("this scheduler is working already; register its tasks before it starts")
        policy = TaskPolicy.of(lane=lane, timeout=timeout, retry=retry, max_crashes=max_crashes)

        def register(function: Callable[..., Any]) -> AnyTask:
            called = getattr(function, "__name__", "") if name is None else name
            task = Task(called, function, policy, self.submit)
            self.tasks.add(task)
            return task

        return register if function is None else register(function)

    # Submitting

    async def submit(self, task: AnyTask | str, args: Mapping[str, Any] | None = None, **options: Any) -> Receipt:
        """Accept a run of `task` with these arguments; return its receipt once it is stored.

        Options: `user`, `session`, `priority` (-100 to 100), `delay` (seconds or timedelta) or `at` (aware datetime),
        `lane` (instead of the task's), `session_policy`. Raises UnknownTask, BadArguments or BadSetting, and then
        nothing is stored; StoreUnavailable says by `maybe_done` whether the run may have been stored all the same.
        """
        new = self._checked(task, args or {}, options, new_run_id())
        if not self._opened:
            await self.open()
        return await self._client.submit(new)

    async def submit_many(self, items: Iterable[Submission | tuple[AnyTask | str, Mapping[str, Any]]]) -> list[Receipt]:
        """Accept many runs; return a receipt for each, in order. All are checked before any is stored."""
        parts = [_parts(item) for item in items]
        ids = new_run_id.many(len(parts))
        batch = [self._checked(*part, id_) for part, id_ in zip(parts, ids, strict=True)]
        await self.open()
        return await self._client.submit_all(batch)

    def _checked(self, task: Any, args: Mapping[str, Any], options: Mapping[str, Any], new_id: str) -> NewRun:
        known = self._known(task)
        text = known.parameters.pack(args, self.settings.args_limit)
        if not options:
            return NewRun(id=new_id, task=known.name, args=text, lane=known.policy.lane)
        for option in options:
            if option not in SUBMIT_OPTIONS:
                raise BadSetting.unknown("option of submit", option, SUBMIT_OPTIONS)
        return _with_options(known, text, options, new_id)

    def _known(self, task: Any) -> AnyTask:
        if isinstance(task, str):
            return self.tasks.get(task)
        if not isinstance(task, Task):
            shown = getattr(task, "__name__", repr(task))
            raise BadSetting(f"{shown} is not a task; register the function with @app.task, or give a task's name")
        known = self.tasks.get(task.name)
        if known is not task:
            raise BadSetting(f"task {task.name!r} is another scheduler's; submit it there, or by its name")
        return known

    # Reading

    async def get(self, run: Receipt | Run | str) -> Run:
        """Return the run as it stands now; an id may be given by its beginning. Raises UnknownRun."""
        store = await self.open()
        return await self._client.repeated(lambda: store.get(run_id(run)))

    async def runs(
        self,
        *,
        state: RunState | str | None = None,
        task: str | None = None,
        lane: str | None = None,
        user: str | None = None,
        session: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[Run]:
        """Return up to `limit` runs that fit, newest first; `before` is the number to go on from."""
        checked_count(limit, "limit")
        wanted = RunFilter(
            state=None if state is None else RunState.named(state), task=task, lane=lane, user=user, session=session
        )
        store = await self.open()
        return await self._client.repeated(lambda: store.runs(wanted, limit=limit, before=before))

    async def result(self, run: Receipt | Run | str, timeout: timedelta | float | None = None) -> Any:
        """Wait for the run to end and return its result.

        Raises RunFailed, RunCancelled or RunDropped if it ended otherwise, TimeoutError if it has not ended in time.
        """
        seconds = _seconds(timeout)
        await self.open()
        return await self._client.result(run_id(run), seconds)

    async def wait(self, run: Receipt | Run | str, timeout: timedelta | float | None = None) -> Run:
        """Wait for the run to end, however it does, and return it. Raises TimeoutError."""
        seconds = _seconds(timeout)
        await self.open()
        return await self._client.ended(run_id(run), seconds)

    async def events(self, run: Receipt | Run | str, after: int = 0) -> AsyncIterator[Event]:
        """Yield the run's events with numbers greater than `after`: those there are, then live ones, up to `done`."""
        if not isinstance(after, int) or after < 0:
            raise BadSetting(f"after is {after!r}; it is the number of the last event you have, 0 for none")
        await self.open()
        async for event in self._client.events(run_id(run), after):
            yield event

    # Working

    async def work(self, *, concurrency: int | None = None, ready: Callable[[], None] | None = None) -> None:
        """Execute runs in this process until `stop` is called or this call is cancelled."""
        await self._worked(until_drained=False, concurrency=concurrency, ready=ready)

    async def drain(self, *, concurrency: int | None = None) -> Mapping[str, int]:
        """Execute everything that is due; return how the attempts were settled: `{"succeed": 12, "retry": 1}`."""
        return await self._worked(until_drained=True, concurrency=concurrency)

    @asynccontextmanager
    async def running(self, concurrency: int | None = None) -> AsyncIterator[Scheduler]:
        """Work inside the `async with` block: `async with app.running(concurrency=10): ...`."""
        started = asyncio.Event()
        work = asyncio.create_task(self.work(concurrency=concurrency, ready=started.set), name="laneway-work")
        waiter = asyncio.create_task(started.wait())
        try:
            await asyncio.wait((work, waiter), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            yield self
        finally:
            waiter.cancel()
            if started.is_set():
                await self.stop()
            else:
                work.cancel()
            await asyncio.gather(work, return_exceptions=not started.is_set())

    async def stop(self, timeout: timedelta | float = 30) -> list[str]:
        """Stop working: claim nothing, wait up to `timeout`, then cancel handlers and give the runs back uncharged.

        Returns the ids of runs left behind: their handlers, in threads, have not ended and keep their lease.
        """
        seconds = duration(timeout, "timeout") / SECOND
        worker, work = self._worker, self._work
        if worker is None or work is None:
            return []
        await worker.stop(seconds, self.settings.grace if seconds else 0)
        await asyncio.wait([work])
        return worker.executing

    @property
    def executing(self) -> list[str]:
        """The ids of the runs that this scheduler is executing now; may be asked from any thread."""
        worker = self._worker
        return [] if worker is None else worker.executing

    def _forget_worker(self) -> None:
        """In a forked child: the worker's loop and thread are the parent's."""
        self._worker = self._work = self._working_on = None

    async def _worked(
        self, *, until_drained: bool, concurrency: int | None, ready: Callable[[], None] | None = None
    ) -> Mapping[str, int]:
        loop = asyncio.get_running_loop()
        if self._working_on is not None and not self._working_on.is_closed():
            raise BadSetting("this scheduler is working already; stop it first, or use another one")
        settings = self.settings if concurrency is None else replace(self.settings, concurrency=concurrency)
        self._working_on = loop
        try:
            worker = Worker(self._store, self.tasks, self._clock, settings)
            work = asyncio.create_task(self._opened_and_run(worker, until_drained=until_drained, ready=ready))
            self._worker, self._work = worker, work
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await worker.stop(0, settings.grace)
                if not self._opened:
                    work.cancel()  # it never got as far as the store
                await asyncio.wait([work])
                raise
            return worker.moves
        finally:
            self._worker = self._work = self._working_on = None

    async def _opened_and_run(self, worker: Worker, **how: Any) -> None:
        await self.open()
        await worker.run(**how)

    # Opening and closing

    async def open(self) -> Store:
        """Open the store now instead of with the first call; return it."""
        if not self._opened:
            await self._store.open()
            if self._declared:
                await self._store.set_lanes(self._declared)
            self._opened = True
        return self._store

    async def aclose(self) -> None:
        """Stop working and let go of the store. The scheduler can be used again: the next call opens it."""
        await self.stop()
        self._opened = False
        await self._store.close()

    async def __aenter__(self) -> Scheduler:
        """Open the store."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.aclose()


def store_at(url: str, clock: Clock, settings: Settings) -> Store:
    """Return the store at that address, not opened yet; raise BadURL for one laneway does not know."""
    scheme, separator, rest = url.partition("://")
    if scheme == "memory" and separator:
        return MemoryStore(clock)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from laneway.stores.sqlite import SQLiteStore

        return SQLiteStore(rest[1:], clock, busy_timeout=settings.busy_timeout)
    if scheme == "sqlite":
        raise BadURL(f"{url!r} names no file; write sqlite:///relative.db or sqlite:////absolute/path.db")
    # Only the scheme is shown: what follows may hold a password.
    shown = f"{scheme}://" if separator else repr(url)
    raise BadURL(f"{shown} is not a store laneway knows; it can be sqlite:///file.db or memory://")


def without_password(url: str) -> str:
    """Return the address as it may be shown: without user, password and parameters."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.partition("?")[0].rpartition("@")[2]


def run_id(run: Receipt | Run | str) -> str:
    """Return the id of what stands for a run."""
    if isinstance(run, Receipt):
        return run.run_id
    if isinstance(run, Run):
        return run.id
    if not isinstance(run, str):
        raise BadSetting(f"{run!r} is no run; give a receipt, a run or an id")
    return run


def _parts(item: Any) -> tuple[Any, Mapping[str, Any], Mapping[str, Any]]:
    if type(item) is tuple and len(item) == 2:
        return (*item, _NO_OPTIONS)
    if isinstance(item, Submission):
        options = {name: value for name in SUBMIT_OPTIONS if (value := getattr(item, name)) is not None}
        return item.task, item.args, options
    raise BadSetting(f"submit_many takes Submission objects or (task, arguments) pairs, not {item!r}")


def _seconds(timeout: timedelta | float | None) -> float | None:
    return None if timeout is None else duration(timeout, "timeout") / SECOND


def _with_options(task: AnyTask, args: str, options: Mapping[str, Any], new_id: str) -> NewRun:
    given = {name: value for name, value in options.items() if value is not None}
    priority, policy = given.get("priority", 0), given.get("session_policy")
    if not isinstance(priority, int) or isinstance(priority, bool) or priority not in PRIORITIES:
        raise BadSetting(f"priority is {priority!r}; it must be a whole number from -100 to 100")
    if policy is not None and not isinstance(policy, SessionPolicy):
        raise BadSetting(f"session_policy is {policy!r}; it must be a SessionPolicy")
    if policy is not None and "session" not in given:
        raise BadSetting("session_policy is given without a session")
    names = {what: checked_name(given[what], what) for what in ("lane", "user", "session") if what in given}
    return NewRun(
        id=new_id,
        task=task.name,
        args=args,
        lane=names.get("lane", task.policy.lane),
        user=names.get("user"),
        session=names.get("session"),
        max_concurrent=None if policy is None else policy.max_concurrent,
        priority=priority,
        delay=duration(given.get("delay", 0), "delay"),
        due_at=_due_at(given),
    )


def _due_at(given: Mapping[str, Any]) -> int | None:
    at = given.get("at")
    if at is None:
        return None
    if given.get("delay"):
        raise BadSetting("give delay or at, not both")
    if not isinstance(at, datetime):
        raise BadSetting(f"at is {at!r}; it must be a datetime with a time zone")
    return micros(at)
