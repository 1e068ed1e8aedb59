"""Sync: what `app.sync` is. One method for each public coroutine of `Scheduler`, in the same order.

This layer does not know the scheduler's, nor the types of tasks and submissions; they are type variables here, named as
what they stand for. `tests/architecture/test_sync.py` compares the two classes, so no call can be forgotten or drift.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any, Generic, Self, TypeVar

from laneway.core.common.instants import SECOND, duration
from laneway.core.records.events import Event
from laneway.core.records.run import Reason, Receipt, Run
from laneway.core.records.states import RunState
from laneway.core.records.status import StuckRun
from laneway.errors import BadSetting
from laneway.ports.gates import Depths
from laneway.ports.inbox import Letter
from laneway.ports.store import Store
from laneway.sync.desks import SyncLanes, SyncSessions, SyncTasks, SyncUsers, SyncWorkers
from laneway.sync.jobs import SyncJobs
from laneway.sync.life import Hook
from laneway.sync.thread import LoopThread

AnyTask = TypeVar("AnyTask")
Submission = TypeVar("Submission")
T = TypeVar("T")


class Sync(Generic[AnyTask, Submission]):
    """Every call of a scheduler, blocking: `app.sync.submit(...)`. Each does what its twin of `Scheduler` says.

    Any thread may call that runs no event loop; one that does gets WrongThread. Ctrl-C cancels the call. `with
    app.sync:` opens the store and, at the end, closes everything.
    """

    def __init__(self, scheduler: Any, forget_worker: Callable[[], None]) -> None:
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

    def _call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.life().call(make, self._within)

    # Submitting

    def submit(
        self, task: AnyTask | str, args: Mapping[str, Any] | None = None, *, connection: Any = None, **options: Any
    ) -> Receipt:
        """Accept a run of `task`; return its receipt once it is stored, or is part of the connection's transaction."""
        if connection is not None:
            # On this thread: that is where the connection may be used.
            return self.letter(task, args, **options).post(connection)
        receipt: Receipt = self._call(lambda: self._scheduler.submit(task, args, **options))
        return receipt

    def letter(self, task: AnyTask | str, args: Mapping[str, Any] | None = None, **options: Any) -> Letter:
        """Return a checked submission that can be put into a transaction of your own, by `post`."""
        letter: Letter = self._call(lambda: self._scheduler.letter(task, args, **options))
        return letter

    def submit_many(self, items: Iterable[Submission | tuple[AnyTask | str, Mapping[str, Any]]]) -> list[Receipt]:
        """Accept many runs; return a receipt for each, in order."""
        # Read here: what an iterable does (a query, a file) must not hold up the loop.
        given = list(items)
        return self._call(lambda: self._scheduler.submit_many(given))

    # Reading

    def get(self, run: Receipt | Run | str) -> Run:
        """Return the run as it stands now."""
        found: Run = self._call(lambda: self._scheduler.get(run))
        return found

    def runs(
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
        """Return up to `limit` runs that fit, newest first."""
        wanted = {"state": state, "task": task, "lane": lane, "user": user, "session": session}
        return self._call(lambda: self._scheduler.runs(**wanted, limit=limit, before=before))

    def why(self, run: Receipt | Run | str) -> list[Reason]:
        """Return what a run waits for."""
        return self._call(lambda: self._scheduler.why(run))

    def depths(self) -> Depths:
        """Return how many runs there are, by state and by where they wait."""
        depths: Depths = self._call(self._scheduler.depths)
        return depths

    def result(self, run: Receipt | Run | str, timeout: timedelta | float | None = None) -> Any:
        """Wait for the run to end and return its result."""
        return self._call(lambda: self._scheduler.result(run, timeout))

    def wait(self, run: Receipt | Run | str, timeout: timedelta | float | None = None) -> Run:
        """Wait for the run to end, however it does, and return it."""
        ended: Run = self._call(lambda: self._scheduler.wait(run, timeout))
        return ended

    def events(self, run: Receipt | Run | str, after: int = 0) -> Iterator[Event]:
        """Return an iterator over the run's events, live, up to `done`; it may be abandoned before."""
        return self._thread.life().iterate(lambda: self._scheduler.events(run, after), self._within)

    # Control

    def cancel(self, run: Receipt | Run | str, *, abandon: bool = False) -> Run:
        """Cancel the run; return it as it stands then."""
        cancelled: Run = self._call(lambda: self._scheduler.cancel(run, abandon=abandon))
        return cancelled

    def cancel_where(
        self,
        *,
        state: RunState | str | None = None,
        task: str | None = None,
        lane: str | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> int:
        """Cancel all runs that fit and have not ended; return how many that were."""
        wanted = {"state": state, "task": task, "lane": lane, "user": user, "session": session}
        cancelled: int = self._call(lambda: self._scheduler.cancel_where(**wanted))
        return cancelled

    def pause(self, run: Receipt | Run | str) -> Run:
        """Pause the run."""
        paused: Run = self._call(lambda: self._scheduler.pause(run))
        return paused

    def answer(self, run: Receipt | Run | str, answer: object, *, name: str | None = None) -> Run:
        """Answer what the run has asked (`ctx.ask`), with any JSON. Raises NotWaiting."""
        answered: Run = self._call(lambda: self._scheduler.answer(run, answer, name=name))
        return answered

    def resume(self, run: Receipt | Run | str) -> Run:
        """Let a paused run go on."""
        resumed: Run = self._call(lambda: self._scheduler.resume(run))
        return resumed

    def retry(self, run: Receipt | Run | str) -> Receipt:
        """Submit a run that has ended once more, as a new run whose `retry_of` names it."""
        receipt: Receipt = self._call(lambda: self._scheduler.retry(run))
        return receipt

    # Operating

    @property
    def lanes(self) -> SyncLanes:
        """The lanes."""
        return SyncLanes(self._scheduler.lanes, self._call)

    @property
    def users(self) -> SyncUsers:
        """The users."""
        return SyncUsers(self._scheduler.users, self._call)

    @property
    def sessions(self) -> SyncSessions:
        """The sessions."""
        return SyncSessions(self._scheduler.sessions, self._call)

    @property
    def tasks(self) -> SyncTasks:
        """The tasks."""
        return SyncTasks(self._scheduler.tasks, self._call)

    @property
    def jobs(self) -> SyncJobs:
        """The jobs."""
        return SyncJobs(self._scheduler.jobs, self._call)

    @property
    def workers(self) -> SyncWorkers:
        """The workers that are up."""
        return SyncWorkers(self._scheduler.workers, self._call)

    # Working

    def work(
        self,
        *,
        concurrency: int | None = None,
        attempts: int | None = None,
        ready: Callable[[], None] | None = None,
        stuck: Callable[[StuckRun], None] | None = None,
    ) -> None:
        """Execute runs in this process, on the loop's thread, until another thread calls `stop`."""
        how = {"concurrency": concurrency, "attempts": attempts, "ready": ready, "stuck": stuck}
        self._call(lambda: self._scheduler.work(**how))

    def drain(self, *, concurrency: int | None = None) -> Mapping[str, int]:
        """Execute everything that is due; return how the attempts were settled."""
        return self._call(lambda: self._scheduler.drain(concurrency=concurrency))

    @contextmanager
    def running(self, concurrency: int | None = None) -> Iterator[Self]:
        """Work, on the loop's thread, inside the `with` block: `with app.sync.running(concurrency=10): ...`."""
        life, worker = self._thread.life(), self._scheduler.running(concurrency)
        life.call(worker.__aenter__, self._within)
        try:
            yield self
        finally:
            # A life that is over has stopped its worker, or left it in the parent process.
            if life.over is None:
                life.call(lambda: worker.__aexit__(None, None, None))

    def stop(self, timeout: timedelta | float = 30) -> list[str]:
        """Stop working; return the ids of runs left behind. Calls go on: `close` ends them too."""
        return self._call(lambda: self._scheduler.stop(timeout))

    # Opening and closing

    def open(self) -> Store:
        """Open the store now instead of with the first call; return it."""
        store: Store = self._call(self._scheduler.open)
        return store

    def close(self) -> None:
        """Cancel the calls under way, stop working, let go of the store, end the thread.

        The callers cut off get StoreUnavailable, and so do those who call meanwhile. Afterwards everything can be used
        again: the next call starts another thread. Closing what is closed does nothing.
        """
        self._thread.close(stop=self._scheduler.stop, close=self._scheduler.aclose, within=self._within)

    def __enter__(self) -> Self:
        """Open the store."""
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        self.close()
