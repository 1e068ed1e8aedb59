"""The `Scheduler` that users hold. It makes a store from a URL and an engine from settings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from laneway.core.common.addresses import scheme_shown, without_password
from laneway.core.records.policy import Lane
from laneway.core.records.run import NewRun, Receipt, ReceiptOutcome, Why
from laneway.core.records.status import Status, StuckRun
from laneway.engine.attempts.subscribers import Subscribers
from laneway.engine.client.admin import Lanes, Sessions, Tasks, Users
from laneway.engine.client.client import Client
from laneway.engine.client.load import Load, SessionLoads
from laneway.engine.client.run_control import RunControl, Workers
from laneway.engine.client.submissions import Submission, SubmissionChecker
from laneway.engine.common.clock import SystemClock
from laneway.engine.config.apply import FileSync
from laneway.engine.config.lane_declarations import declared
from laneway.engine.config.tomlfile import FILE
from laneway.engine.config.watcher import FileWatch
from laneway.engine.facade.decorators import TaskDecorators
from laneway.engine.facade.runs_api import RunsApi
from laneway.engine.handlers.replay import Bounds
from laneway.engine.handlers.resources import Resources
from laneway.engine.handlers.task import AnyTask, Registry
from laneway.engine.jobs.declared import CodeJobs
from laneway.engine.jobs.environment import JobEnvironment, OwnerZone
from laneway.engine.jobs.jobs import Jobs
from laneway.engine.worker.lifecycle import WorkerLifecycle
from laneway.errors import BadSetting, BadURL, KeyConflict, StoreMoved
from laneway.ports.clock import Clock
from laneway.ports.inbox import InboxStore, Letter
from laneway.ports.store import Store
from laneway.settings import DEFAULT_URL, Settings
from laneway.stores.memory.store import MemoryStore
from laneway.sync import Sync

REDIS = ("redis", "rediss", "valkey", "valkeys", "unix")  # the schemes of a Redis URL
POSTGRES = ("postgresql", "postgres")
SHUT = "this scheduler is shut: it takes no new runs"
_REFUSED = ReceiptOutcome.REFUSED


class Scheduler(TaskDecorators, RunsApi):
    """Accepts runs now and executes them later.

    `url` is the address of the store: `sqlite:///laneway.db` by default, or the value of `LANEWAY_STORE`; `memory://`
    is for tests. The first call opens the store, on the event loop of its caller. `store` is a store object instead of
    an address: the scheduler opens it in the same way, but never closes it. `lanes` declares lanes, which
    `laneway.toml` and `LANEWAY_LANE_<NAME>` may change; with None nothing is declared, and both are ignored. `load`
    returns how full a session's context window is: called with the session's name, it returns a share or (used,
    window); from 60 % on the session gets one run at a time. `owner_zone` is called with a job's owner and returns the
    owner's time zone, for schedules that name none. The other settings are those of `laneway.settings.Settings`. `sync`
    has every call in a blocking form.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        store: Store | None = None,
        lanes: Iterable[Lane] | None = (),
        load: Load | None = None,
        owner_zone: OwnerZone | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        if store is not None and url is not None:
            raise BadSetting("give the address of a store or store=, not both")
        self.settings = Settings.of(settings)
        self._registry = Registry()
        self._environment = JobEnvironment(self.settings.tz, owner_zone)
        self._clock = clock or SystemClock()
        code = () if lanes is None else tuple(lanes)
        file = Path(FILE).absolute()
        self._declared = () if lanes is None else declared(code, os.environ, file)
        loads = SessionLoads(load)
        self._checker = SubmissionChecker(self._registry, loads, Bounds.of(self.settings))
        self._owns_store = store is None
        if store is None:
            self.url = url if url is not None else os.environ.get("LANEWAY_STORE") or DEFAULT_URL
            self._store = store_at(self.url, self._clock, self.settings)
        else:
            self.url, self._store = type(store).__name__, store  # for messages: its address is not known here
        self._client = Client(self._store, self._clock)
        self._control = RunControl(self._store, self._client)
        self.lanes = Lanes(self.open, self._client)
        self.users = Users(self.open, self._client)
        self.sessions = Sessions(self.open, self._client, self._control)
        self.tasks = Tasks(self.open, self._client, self._registry)
        self.workers = Workers(self.open, self._client)
        limit, environment = self.settings.args_limit, self._environment
        self._code_jobs = CodeJobs(
            *(self._client, self._registry, environment, limit), lambda: self._lifecycle.worker is not None
        )
        self.jobs = Jobs(
            *(self.open, self._client, self._registry, environment),
            limit=limit,
            refuse_new=self._refuse_if_shut,
            code=self._code_jobs,
        )
        self._resources = Resources()
        self._subscribers = Subscribers()
        self._shut = False
        self._opened = False
        self._lifecycle = WorkerLifecycle(
            self.open,
            lambda: self._opened,
            tasks=self._registry,
            resources=self._resources,
            clock=self._clock,
            settings=self.settings,
            load=None if load is None else loads,
            subscribers=self._subscribers,
            environment=self._environment,
            file=None if lanes is None else self._watch(file, code),
        )
        # Made here, not on first use: threads that use it at the same moment must get the same loop.
        self.sync = Sync(self, self._lifecycle.forget)

    def _watch(self, file: Path, lanes: Sequence[Lane]) -> FileWatch:
        limit = self.settings.args_limit
        sync = FileSync(file, self.open, self._client, self._registry, self._environment, lanes=lanes, args_limit=limit)
        return FileWatch(file, self._clock, sync.apply)

    # Submitting

    async def submit(
        self, task: AnyTask | str, args: Mapping[str, Any] | None = None, *, connection: Any = None, **options: Any
    ) -> Receipt:
        """Submit a run of `task` with these arguments; return its receipt once it is stored.

        Options: `user`, `session`, `priority` (-100 to 100), `delay` (seconds or timedelta) or `at` (aware datetime),
        `lane` (instead of the task's), `session_policy`, `key` (idempotency: the same key of a task and user returns
        the first run). `connection`, on PostgreSQL, is a connection of yours: the run exists if and only if its
        transaction commits. If the lane is full, the call may wait for up to `submit_timeout`. The receipt says whether
        the run was accepted. Raises UnknownTask, BadArguments, BadSetting or KeyConflict; nothing is stored then.
        Raises StoreUnavailable, whose `maybe_done` says whether the run may have been stored.
        """
        if connection is not None:
            return await (await self.letter(task, args, **options)).send(connection)
        self._refuse_if_shut()
        new = self._checker.one(task, args or {}, options)
        if not self._opened:
            await self.open()
        receipt = await self._client.submit(new)
        if receipt.outcome is _REFUSED:
            return await self._not_accepted(new, receipt)
        return receipt

    async def letter(self, task: AnyTask | str, args: Mapping[str, Any] | None = None, **options: Any) -> Letter:
        """Return a checked submission to send inside a transaction of yours; `submit(connection=)` does both.

        Raises the errors of `submit`, and BadSetting if the store is not PostgreSQL.
        """
        self._refuse_if_shut()
        new = self._checker.one(task, args or {}, options)
        if not isinstance(self._store, InboxStore):
            raise BadSetting("connection= needs a PostgreSQL store: only there can a run be part of your transaction")
        await self.open()
        return self._store.letter(new)

    async def _not_accepted(self, new: NewRun, receipt: Receipt) -> Receipt:
        if receipt.reason == Why.LANE_WAIT:
            [receipt] = await self._client.submit_and_wait([new], self.settings.submit_timeout)
        if receipt.reason == Why.KEY_CONFLICT:
            raise KeyConflict(new.key or "", receipt.run_id)
        return receipt

    async def submit_many(self, items: Iterable[Submission | tuple[AnyTask | str, Mapping[str, Any]]]) -> list[Receipt]:
        """Submit many runs; return a receipt for each, in order. All are checked before any is stored.

        A key that was used with other arguments raises nothing here: the receipt says `refused`, `key_conflict`.
        """
        self._refuse_if_shut()
        batch = self._checker.many(items)
        await self.open()
        return await self._client.submit_and_wait(batch, self.settings.submit_timeout)

    def shut(self) -> None:
        """Refuse new runs in this process from now on. Accepted runs continue. `aclose` undoes it."""
        self._shut = True

    def _refuse_if_shut(self) -> None:
        if self._shut:
            raise BadSetting(SHUT)

    # Working

    async def work(
        self,
        *,
        concurrency: int | None = None,
        attempts: int | None = None,
        ready: Callable[[], None] | None = None,
        stuck: Callable[[StuckRun], None] | None = None,
    ) -> None:
        """Execute runs in this process until `stop` is called or this call is cancelled.

        With `attempts`, the worker also stops after that many attempts, and waits for the last of them. `ready` is
        called once the worker is registered in the store. `stuck` is called when a handler was told to stop and has not
        in time.
        """
        await self._lifecycle.work(self._store, concurrency=concurrency, attempts=attempts, ready=ready, stuck=stuck)

    async def drain(self, *, concurrency: int | None = None) -> Mapping[str, int]:
        """Execute everything that is due; return how attempts were settled: `{"succeed": 12, "retry": 1}`."""
        return await self._lifecycle.work(self._store, until_drained=True, concurrency=concurrency)

    @asynccontextmanager
    async def running(self, concurrency: int | None = None) -> AsyncIterator[Scheduler]:
        """Work inside the `async with` block: `async with app.running(concurrency=10): ...`."""
        async with self._lifecycle.running(self._store, concurrency):
            yield self

    async def stop(self, timeout: timedelta | float = 30) -> list[str]:
        """Stop working: claim nothing, wait up to `timeout`, then cancel handlers and give the runs back uncharged.

        Returns the ids of the runs left behind: their handlers have not ended, and they keep their leases. Any thread
        may call this. Called from inside a handler, it begins the stop and returns at once.
        """
        return await self._lifecycle.stop(timeout)

    @property
    def executing(self) -> list[str]:
        """The ids of the runs that this scheduler is executing now; any thread may read it."""
        return self._lifecycle.executing

    def status(self) -> Status:
        """Return the status of this scheduler in this process; any thread may call it."""
        return self._lifecycle.status()

    # Opening and closing

    async def open(self) -> Store:
        """Open the store now, instead of on the first call; return it."""
        if not self._opened:
            await self._store.open()
            # A store that has moved can still be read. Submitting to it, and working on it, raises StoreMoved.
            with contextlib.suppress(StoreMoved):
                if self._declared:
                    await self._store.declare_lanes(self._declared)
                await self._code_jobs.apply(self._store, again=True)
            self._opened = True
        elif self._environment.declared:
            await self._code_jobs.apply(self._store)
        return self._store

    async def aclose(self) -> None:
        """Stop working and close the store. The scheduler can be used again: the next call opens the store.

        A store that was given by `store=` stays open: its owner closes it.
        """
        await self.stop()
        self._opened = self._shut = False
        if self._owns_store:
            await self._store.close()

    async def __aenter__(self) -> Scheduler:
        """Open the store."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop working; close the store, unless it was given by `store=`."""
        await self.aclose()


def store_at(url: str, clock: Clock, settings: Settings) -> Store:
    """Return the store at that address, not opened yet. Raises BadURL."""
    scheme, separator, rest = url.partition("://")
    if scheme == "memory" and separator:
        return MemoryStore(clock)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from laneway.stores.sqlite.store import SQLiteStore

        return SQLiteStore(rest[1:], clock, busy_timeout=settings.busy_timeout)
    if scheme == "sqlite":
        raise BadURL(
            f"{without_password(url)!r} names no file; write sqlite:///relative.db or sqlite:////absolute/path.db"
        )
    if separator and scheme.partition("+")[0] in REDIS:
        return _redis_store(url, clock)
    if separator and scheme in POSTGRES:
        return _postgres_store(url, clock)
    raise BadURL(
        f"{scheme_shown(url)} is not a store laneway knows; it can be sqlite:///file.db, redis://host,"
        " postgresql://host/database or memory://"
    )


def _redis_store(url: str, clock: Clock) -> Store:
    try:
        from laneway.stores.redis.store import RedisStore
    except ModuleNotFoundError as error:
        if error.name != "hiredis":
            raise
        raise BadURL(f"{url.partition(':')[0]}:// needs a package more: pip install 'laneway[redis]'") from None
    # The server's clock counts. Tests give a clock of their own.
    return RedisStore(url, None if isinstance(clock, SystemClock) else clock)


def _postgres_store(url: str, clock: Clock) -> Store:
    try:
        from laneway.stores.postgres.store import PostgresStore
    except ImportError as error:
        # psycopg may be installed without its compiled part, or without libpq: then it cannot be imported.
        if "psycopg" not in f"{error.name} {error}":
            raise
        raise BadURL("postgresql:// needs a package more: pip install 'laneway[postgres]'") from None
    return PostgresStore(url, None if isinstance(clock, SystemClock) else clock)


def place_of(url: str) -> str:
    """Return the address that is shown to others: without its password, and a file's as an absolute path."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and len(rest) > 1:
        return f"{scheme}{separator}/{Path(rest[1:]).absolute()}"
    return without_password(url)
