"""The Scheduler: what users hold. It turns a URL into a store and settings into an engine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

from laneway.core import codec
from laneway.core.breakers import Breaker
from laneway.core.checks import checked_count
from laneway.core.events import Event
from laneway.core.instants import SECOND, duration
from laneway.core.policy import Lane, TaskPolicy
from laneway.core.retry import Retry
from laneway.core.run import NewRun, Reason, Receipt, ReceiptOutcome, Run, RunFilter, Why
from laneway.core.states import RunState
from laneway.core.status import Status, StuckRun
from laneway.engine.beginning import Beginning
from laneway.engine.client import Client
from laneway.engine.clock import SystemClock
from laneway.engine.context import Context
from laneway.engine.control import Control, Workers
from laneway.engine.declaring import FILE, declared
from laneway.engine.keeping import HeldBack
from laneway.engine.loading import Load, Loads
from laneway.engine.operating import Lanes, Sessions, Tasks, Users
from laneway.engine.resources import Resources
from laneway.engine.submissions import Checking, Submission
from laneway.engine.subscribing import Subscribers
from laneway.engine.tasks import Manner, Registry, Task
from laneway.engine.trail import Bounds
from laneway.engine.working import Working
from laneway.errors import BadSetting, BadURL, KeyConflict
from laneway.ports.clock import Clock
from laneway.ports.gates import Depths
from laneway.ports.store import Store
from laneway.settings import DEFAULT_URL, Settings
from laneway.stores.memory import MemoryStore
from laneway.sync import Sync

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = Task[..., Any]
SHUT = "this scheduler is shut: it takes no new runs"
_REFUSED = ReceiptOutcome.REFUSED
DEFAULT_RETRY = Retry()
TASK_OPTIONS = (
    *("name", "lane", "timeout", "retry", "max_crashes", "breaker"),
    *("process", "transient", "transient_tries", "transient_wait", "validate", "merge", "before_start"),
    "events",
)


class Scheduler:
    """Accepts runs now and executes them later.

    `url` says where they are kept: `sqlite:///laneway.db` by default, or what `LANEWAY_STORE` says; `memory://` for
    tests. The store is opened by the first call, on whatever loop that comes from. `lanes` declares lanes, which
    `laneway.toml` and `LANEWAY_LANE_<NAME>` may change; None declares nothing, whatever those say. `load` tells how
    full a session's window is: called with its name, it returns a share or (used, window), and from 60 % on the session
    gets one run at a time. The other settings are those of `laneway.settings.Settings`. `sync` has every call,
    blocking.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        lanes: Iterable[Lane] | None = (),
        load: Load | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        self.url = url if url is not None else os.environ.get("LANEWAY_STORE") or DEFAULT_URL
        self.settings = Settings.of(settings)
        self._registry = Registry()
        self._clock = clock or SystemClock()
        self._declared = () if lanes is None else declared(lanes, os.environ, Path(FILE))
        loads = Loads(load)
        self._checking = Checking(self._registry, loads, Bounds.of(self.settings))
        self._store = store_at(self.url, self._clock, self.settings)
        self._client = Client(self._store, self._clock)
        self._control = Control(self._store, self._client)
        self.lanes = Lanes(self.open, self._client)
        self.users = Users(self.open, self._client)
        self.sessions = Sessions(self.open, self._client, self._control)
        self.tasks = Tasks(self.open, self._client, self._registry)
        self.workers = Workers(self.open, self._client)
        self._resources = Resources()
        self._subscribers = Subscribers()
        self._shut = False
        self._opened = False
        self._working = Working(
            self.open,
            lambda: self._opened,
            tasks=self._registry,
            resources=self._resources,
            clock=self._clock,
            settings=self.settings,
            load=loads,
            subscribers=self._subscribers,
        )
        # Made now and not when it is first asked for: threads that ask at the same moment must get the same loop.
        self.sync: Sync[AnyTask, Submission] = Sync(self, self._working.forget)

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
        breaker: Breaker | None = None,
        process: bool = False,
        transient: type[Exception] | tuple[type[Exception], ...] = (),
        transient_tries: int = 3,
        transient_wait: timedelta | float = 5,
        validate: Callable[[Any], Any] | None = None,
        merge: str | Callable[[list[dict[str, Any]]], Any] = "join",
        before_start: Callable[[dict[str, Any], Context], Any] | None = None,
        events: bool = True,
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
        breaker: Breaker | None = None,
        process: bool = False,
        transient: type[Exception] | tuple[type[Exception], ...] = (),
        transient_tries: int = 3,
        transient_wait: timedelta | float = 5,
        validate: Callable[[Any], Any] | None = None,
        merge: str | Callable[[list[dict[str, Any]]], Any] = "join",
        before_start: Callable[[dict[str, Any], Context], Any] | None = None,
        events: bool = True,
        **unknown: Any,
    ) -> Any:
        """Register a handler: `@app.task(lane=..., timeout=...)`; the function can still be called.

        `breaker` holds the task back, in all processes, after so many failures in a row: `Breaker(5, open_for=60)`.
        `process=True` executes it in a child process. Errors listed as `transient` get `transient_tries` quick tries
        inside the attempt, `transient_wait` apart or as their `retry_after` says. `validate` is called with the result
        and refuses it by raising or returning False: the attempt has failed then. `merge` makes one of the messages
        that were collected: "join" (texts joined by newlines, the rest from the last), "last", or a function of the
        list. `before_start(args, ctx)` is called once, just before the handler's first start: it may return other
        arguments, or refuse the run by raising. `events=False` does not store what the handler says; subscribers hear
        it, and what the engine says of the run is stored all the same.
        """
        for option in unknown:
            raise BadSetting.unknown("option of @app.task", option, TASK_OPTIONS)
        if self._working.worker is not None:
            raise BadSetting("this scheduler is working already; register its tasks before it starts")
        policy = TaskPolicy.of(lane=lane, timeout=timeout, retry=retry, max_crashes=max_crashes, breaker=breaker)
        manner = Manner.of(
            process=process, transient=transient, tries=transient_tries, wait=transient_wait, validate=validate
        )

        beginning = Beginning.of(merge=merge, before_start=before_start)
        if not isinstance(events, bool):
            raise BadSetting(f"events is {events!r}; it must be True or False")

        def register(function: Callable[..., Any]) -> AnyTask:
            called = getattr(function, "__name__", "") if name is None else name
            how = (manner, self._resources.names, beginning)
            task = Task(called, function, policy, self.submit, *how, keeps_events=events)
            self._registry.add(task)
            return task

        return register if function is None else register(function)

    def resource(self, function: Callable[[], R], /) -> Callable[[], R]:
        """Register what handlers share while a worker works: `@app.resource`, before the tasks that use it.

        The function yields it (plain or async generator), or returns it, and is called once per worker, on its loop. A
        handler's parameter of the function's name receives it.
        """
        self._resources.add(function)
        return function

    # Submitting

    async def submit(self, task: AnyTask | str, args: Mapping[str, Any] | None = None, **options: Any) -> Receipt:
        """Accept a run of `task` with these arguments; return its receipt once it is stored.

        Options: `user`, `session`, `priority` (-100 to 100), `delay` (seconds or timedelta) or `at` (aware datetime),
        `lane` (instead of the task's), `session_policy`, `key` (the same key of a task and user returns what it made).
        A full lane may make the caller wait, for `submit_timeout`. The receipt says what became of it. Raises
        UnknownTask, BadArguments, BadSetting or KeyConflict, and then nothing is stored; StoreUnavailable says by
        `maybe_done` whether the run may have been stored all the same.
        """
        if self._shut:
            raise BadSetting(SHUT)
        new = self._checking.one(task, args or {}, options)
        if not self._opened:
            await self.open()
        receipt = await self._client.submit(new)
        if receipt.outcome is _REFUSED:
            return await self._not_accepted(new, receipt)
        return receipt

    async def _not_accepted(self, new: NewRun, receipt: Receipt) -> Receipt:
        if receipt.reason == Why.LANE_WAIT:
            [receipt] = await self._client.submit_and_wait([new], self.settings.submit_timeout)
        if receipt.reason == Why.KEY_CONFLICT:
            raise KeyConflict(new.key or "", receipt.run_id)
        return receipt

    async def submit_many(self, items: Iterable[Submission | tuple[AnyTask | str, Mapping[str, Any]]]) -> list[Receipt]:
        """Accept many runs; return a receipt for each, in order. All are checked before any is stored.

        A key that was used with other arguments is no error here: its receipt says `refused`, `key_conflict`.
        """
        if self._shut:
            raise BadSetting(SHUT)
        batch = self._checking.many(items)
        await self.open()
        return await self._client.submit_and_wait(batch, self.settings.submit_timeout)

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
        wanted = RunFilter.of(state=state, task=task, lane=lane, user=user, session=session)
        store = await self.open()
        return await self._client.repeated(lambda: store.runs(wanted, limit=limit, before=before))

    async def why(self, run: Receipt | Run | str) -> list[Reason]:
        """Return what a run waits for: every gate that is closed for it, who holds it and when it opens, if known."""
        store = await self.open()
        found = await self._client.repeated(lambda: store.get(run_id(run)))
        return await self._client.repeated(lambda: store.why(found.id))

    async def depths(self) -> Depths:
        """Return how many runs there are, by state and by where they wait."""
        store = await self.open()
        return await self._client.repeated(store.depths)

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
        async with aclosing(self._client.events(run_id(run), after)) as events:
            async for event in events:
                yield event

    def subscribe(
        self,
        call: Callable[[Event], Any],
        *,
        run: Receipt | Run | str | None = None,
        kinds: Iterable[str] | None = None,
    ) -> Callable[[], None]:
        """Have `call` hear the events of runs that this scheduler executes in this process; return what ends that.

        It may be async or plain; of one run (given by its whole id) or of some kinds only. What handlers say it hears
        at once, what the engine says when it is stored, in order for each run; an event has no number yet (`seq` 0).
        One that is slow or fails disturbs nothing: it is logged, and 10,000 events behind it loses the oldest.
        """
        return self._subscribers.add(call, None if run is None else run_id(run), kinds)

    # Control

    async def cancel(self, run: Receipt | Run | str, *, abandon: bool = False) -> Run:
        """Cancel the run, in whatever stage it is, also while no worker is up; return it as it stands then.

        One that is running is told to stop, and ends when it has; `abandon=True` ends it at once, frees its slots and
        refuses whatever its handler still writes. Raises WrongState if it has ended otherwise.
        """
        await self.open()
        return await self._control.cancel(run_id(run), abandon=abandon)

    async def cancel_where(
        self,
        *,
        state: RunState | str | None = None,
        task: str | None = None,
        lane: str | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> int:
        """Cancel all runs that fit and have not ended; return how many that were. At least one filter must be given."""
        if (state, task, lane, user, session) == (None,) * 5:
            raise BadSetting("cancel_where without a filter would cancel everything; give state, task, lane, ...")
        wanted = RunFilter.of(state=state, task=task, lane=lane, user=user, session=session)
        await self.open()
        return await self._control.cancel_where(wanted)

    async def pause(self, run: Receipt | Run | str) -> Run:
        """Pause the run: at once while it is pending, at its next checkpoint or step while it is running."""
        await self.open()
        return await self._control.pause(run_id(run))

    async def answer(self, run: Receipt | Run | str, answer: object, *, name: str | None = None) -> Run:
        """Answer what the run has asked (`ctx.ask`), with any JSON; `name` says which, if it has asked several things.

        Raises NotWaiting if it does not wait for that answer (any more).
        """
        text = codec.to_json(answer, "the answer", self.settings.result_limit, plural=False)
        await self.open()
        return await self._control.answer(run_id(run), text, name)

    async def resume(self, run: Receipt | Run | str) -> Run:
        """Let a paused run go on; its handler finds in `ctx.state` what its last checkpoint saved."""
        await self.open()
        return await self._control.resume(run_id(run))

    async def retry(self, run: Receipt | Run | str) -> Receipt:
        """Submit a run that has ended once more, as a new run whose `retry_of` names it."""
        if self._shut:
            raise BadSetting(SHUT)
        await self.open()
        return await self._control.retry(run_id(run))

    def shut(self) -> None:
        """Refuse new runs from here on in this process; what was accepted goes on. Closing ends it."""
        self._shut = True

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

        With `attempts`, it also ends by itself when so many were executed, however long the last of them take. `ready`
        is called once the worker is known to the store, `stuck` when a handler that was told to stop has not in time.
        """
        await self._working.work(self._store, concurrency=concurrency, attempts=attempts, ready=ready, stuck=stuck)

    async def drain(self, *, concurrency: int | None = None) -> Mapping[str, int]:
        """Execute everything that is due; return how the attempts were settled: `{"succeed": 12, "retry": 1}`."""
        return await self._working.work(self._store, until_drained=True, concurrency=concurrency)

    @asynccontextmanager
    async def running(self, concurrency: int | None = None) -> AsyncIterator[Scheduler]:
        """Work inside the `async with` block: `async with app.running(concurrency=10): ...`."""
        async with self._working.running(self._store, concurrency):
            yield self

    async def stop(self, timeout: timedelta | float = 30) -> list[str]:
        """Stop working: claim nothing, wait up to `timeout`, then cancel handlers and give the runs back uncharged.

        Returns the ids of runs left behind: their handlers have not ended and keep their lease. May be called from
        another loop. From inside a handler it only begins the stop, and returns at once.
        """
        return await self._working.stop(timeout)

    @property
    def executing(self) -> list[str]:
        """The ids of the runs that this scheduler is executing now; may be asked from any thread."""
        return self._working.executing

    def status(self) -> Status:
        """Return how this scheduler is doing in this process; may be asked from any thread."""
        return self._working.status()

    # Opening and closing

    async def open(self) -> Store:
        """Open the store now instead of with the first call; return it."""
        if not self._opened:
            await self._store.open()
            if self._declared:
                await self._store.declare_lanes(self._declared)
            self._opened = True
        return self._store

    async def aclose(self) -> None:
        """Stop working and let go of the store. The scheduler can be used again: the next call opens it."""
        await self.stop()
        self._opened = self._shut = False
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


def run_id(run: Receipt | Run | HeldBack | str) -> str:
    """Return the id of what stands for a run."""
    if isinstance(run, Receipt):
        if not run.accepted:
            raise BadSetting(f"the submission was {run.outcome.value} ({run.reason}): there is no run")
        return run.run_id
    if isinstance(run, Run):
        return run.id
    if isinstance(run, HeldBack):
        raise run.refusal()
    if not isinstance(run, str):
        raise BadSetting(f"{run!r} is no run; give a receipt, a run or an id")
    return run


def _seconds(timeout: timedelta | float | None) -> float | None:
    return None if timeout is None else duration(timeout, "timeout") / SECOND
