"""`Sync`, what `app.sync` is: the calls of `Scheduler` in blocking form.

Made by `make sync`; do not edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

from laneway.core.records.events import Event
from laneway.core.records.run import Reason, Receipt, Run
from laneway.core.records.states import RunState
from laneway.core.records.status import StuckRun
from laneway.engine.client.submissions import Submission
from laneway.engine.handlers.task import AnyTask
from laneway.ports.gates import Depths
from laneway.ports.inbox import Letter
from laneway.ports.store import Store
from laneway.sync.base import SyncBase
from laneway.sync.generated.admin import SyncLanes, SyncSessions, SyncTasks, SyncUsers, SyncWorkers
from laneway.sync.generated.jobs import SyncJobs


class Sync(SyncBase):
    """Every call of a scheduler in blocking form: `app.sync.submit(...)`.

    A thread that runs no event loop may call it; any other gets WrongThread. Ctrl-C cancels the call. `with app.sync:`
    opens the store and, at the end, closes everything.
    """

    def submit(
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
            # On this thread: only here may the connection be used.
            return self.letter(task, args, **options).post(connection)
        returned: Receipt = self._call(lambda: self._scheduler.submit(task, args, connection=connection, **options))
        return returned

    def letter(self, task: AnyTask | str, args: Mapping[str, Any] | None = None, **options: Any) -> Letter:
        """Return a checked submission to send inside a transaction of yours; `submit(connection=)` does both.

        Raises the errors of `submit`, and BadSetting if the store is not PostgreSQL.
        """
        returned: Letter = self._call(lambda: self._scheduler.letter(task, args, **options))
        return returned

    def submit_many(self, items: Iterable[Submission | tuple[AnyTask | str, Mapping[str, Any]]]) -> list[Receipt]:
        """Submit many runs; return a receipt for each, in order. All are checked before any is stored.

        A key that was used with other arguments raises nothing here: the receipt says `refused`, `key_conflict`.
        """
        # Read here: what an iterable does (a query, a file) must not hold up the loop.
        items = list(items)
        returned: list[Receipt] = self._call(lambda: self._scheduler.submit_many(items))
        return returned

    def work(
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
        self._call(lambda: self._scheduler.work(concurrency=concurrency, attempts=attempts, ready=ready, stuck=stuck))

    def drain(self, *, concurrency: int | None = None) -> Mapping[str, int]:
        """Execute everything that is due; return how attempts were settled: `{"succeed": 12, "retry": 1}`."""
        returned: Mapping[str, int] = self._call(lambda: self._scheduler.drain(concurrency=concurrency))
        return returned

    @contextmanager
    def running(self, concurrency: int | None = None) -> Iterator[Self]:
        """Work inside the `with` block: `with app.sync.running(concurrency=10): ...`."""
        with self._entered(self._scheduler.running(concurrency)):
            yield self

    def stop(self, timeout: timedelta | float = 30) -> list[str]:
        """Stop working: claim nothing, wait up to `timeout`, then cancel handlers and give the runs back uncharged.

        Returns the ids of the runs left behind: their handlers have not ended, and they keep their leases. Any thread
        may call this. Called from inside a handler, it begins the stop and returns at once.
        """
        returned: list[str] = self._call(lambda: self._scheduler.stop(timeout))
        return returned

    def open(self) -> Store:
        """Open the store now, instead of on the first call; return it."""
        returned: Store = self._call(self._scheduler.open)
        return returned

    def get(self, run: Receipt | Run | str) -> Run:
        """Return the run as it is now; an id may be given by its beginning. Raises UnknownRun."""
        returned: Run = self._call(lambda: self._scheduler.get(run))
        return returned

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
        """Return up to `limit` matching runs, newest first; `before` is the number to go on from."""
        returned: list[Run] = self._call(
            lambda: self._scheduler.runs(
                state=state, task=task, lane=lane, user=user, session=session, limit=limit, before=before
            )
        )
        return returned

    def why(self, run: Receipt | Run | str) -> list[Reason]:
        """Return what a run waits for: every gate that is closed for it, what holds it, and when it opens, if known."""
        returned: list[Reason] = self._call(lambda: self._scheduler.why(run))
        return returned

    def depths(self) -> Depths:
        """Return how many runs there are, by state and by where they wait."""
        returned: Depths = self._call(self._scheduler.depths)
        return returned

    def result(self, run: Receipt | Run | str, timeout: timedelta | float | None = None) -> Any:
        """Wait for the run to end and return its result.

        Raises RunFailed, RunCancelled or RunDropped if it ended without success, TimeoutError if it has not ended in
        time.
        """
        return self._call(lambda: self._scheduler.result(run, timeout))

    def wait(self, run: Receipt | Run | str, timeout: timedelta | float | None = None) -> Run:
        """Wait for the run to end, in whatever state, and return it. Raises TimeoutError."""
        returned: Run = self._call(lambda: self._scheduler.wait(run, timeout))
        return returned

    def events(self, run: Receipt | Run | str, after: int = 0) -> Iterator[Event]:
        """Yield the run's events with numbers greater than `after`: stored ones, then live ones, up to `done`."""
        return self._iterate(lambda: self._scheduler.events(run, after))

    def cancel(self, run: Receipt | Run | str, *, abandon: bool = False) -> Run:
        """Cancel the run, in whatever state it is, even while no worker is up; return it as it is then.

        A running one is told to stop, and ends when it has. `abandon=True` ends it at once, frees its slots, and
        refuses later writes of its handler. Raises WrongState if it has ended otherwise.
        """
        returned: Run = self._call(lambda: self._scheduler.cancel(run, abandon=abandon))
        return returned

    def cancel_where(
        self,
        *,
        state: RunState | str | None = None,
        task: str | None = None,
        lane: str | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> int:
        """Cancel all matching runs that have not ended; return how many. At least one filter must be given."""
        returned: int = self._call(
            lambda: self._scheduler.cancel_where(state=state, task=task, lane=lane, user=user, session=session)
        )
        return returned

    def pause(self, run: Receipt | Run | str) -> Run:
        """Pause the run: at once if it is pending, at its next checkpoint or step if it is running."""
        returned: Run = self._call(lambda: self._scheduler.pause(run))
        return returned

    def answer(self, run: Receipt | Run | str, answer: object, *, name: str | None = None) -> Run:
        """Answer a question of the run (`ctx.ask`) with any JSON; `name` says which, if there are several.

        Raises NotWaiting if the run does not wait for that answer (any more).
        """
        returned: Run = self._call(lambda: self._scheduler.answer(run, answer, name=name))
        return returned

    def resume(self, run: Receipt | Run | str) -> Run:
        """Continue a paused run; its handler finds its last checkpoint in `ctx.state`."""
        returned: Run = self._call(lambda: self._scheduler.resume(run))
        return returned

    def retry(self, run: Receipt | Run | str) -> Receipt:
        """Submit a run that has ended once more, as a new run that names the old one."""
        returned: Receipt = self._call(lambda: self._scheduler.retry(run))
        return returned

    @property
    def lanes(self) -> SyncLanes:
        """The lanes, as `app.sync.lanes`."""
        return SyncLanes(self._scheduler.lanes, self._call)

    @property
    def users(self) -> SyncUsers:
        """The users, as `app.sync.users`."""
        return SyncUsers(self._scheduler.users, self._call)

    @property
    def sessions(self) -> SyncSessions:
        """The sessions, as `app.sync.sessions`."""
        return SyncSessions(self._scheduler.sessions, self._call)

    @property
    def tasks(self) -> SyncTasks:
        """The tasks, as `app.sync.tasks`: iteration gives those registered here, `list` those of all workers."""
        return SyncTasks(self._scheduler.tasks, self._call)

    @property
    def workers(self) -> SyncWorkers:
        """The live workers, as `app.sync.workers`."""
        return SyncWorkers(self._scheduler.workers, self._call)

    @property
    def jobs(self) -> SyncJobs:
        """The jobs, as `app.sync.jobs`."""
        return SyncJobs(self._scheduler.jobs, self._call)
