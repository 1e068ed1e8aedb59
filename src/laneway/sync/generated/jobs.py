"""The blocking form of `app.jobs`.

Made by `make sync`; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laneway.core.jobs.fires import Fire, NextFire
from laneway.core.jobs.job import Job
from laneway.core.jobs.record import Source
from laneway.core.records.run import Receipt
from laneway.core.schedules import Schedule
from laneway.core.schedules.preview import Preview
from laneway.engine.jobs.jobs import Jobs
from laneway.engine.jobs.queries import List
from laneway.sync.base import SyncPart


class SyncJobs(SyncPart[Jobs]):
    """The jobs, as `app.sync.jobs`."""

    def owned_by(self, user: str) -> SyncJobs:
        """Return the same object for one owner: it creates jobs for that owner, and reads and changes no others."""
        return SyncJobs(self._async.owned_by(user), self._call)

    def create(
        self,
        name: str,
        schedule: object,
        task: object,
        args: Mapping[str, Any] | None = None,
        *,
        check_task: bool = True,
        **options: Any,
    ) -> Job:
        """Create a job: `schedule` (an object, or a line such as "0 9 * * 1-5") starts `task` with these arguments.

        Options: `tz` (of a line), `lane`, `user`, `session`, `priority`, `owner`, `description`, `enabled`, `misfire`
        (skip, once, all), `max_staleness`, `overlap` (skip, queue, interrupt, allow), `delete_after_run`,
        `run_on_start`, `timeout`, `retry`, `breaker`, `backoff`, `backoff_cap`, `alert_after`, `enabled_when`.
        `check_task=False` accepts a task that only other processes know. Raises JobExists, UnknownTask, BadArguments or
        BadSetting; nothing is stored then.
        """
        return self._call(lambda: self._async.create(name, schedule, task, args, check_task=check_task, **options))

    def update(
        self, name: Job | str, /, *, of_owner: str | None = None, check_task: bool = True, **changes: Any
    ) -> Job:
        """Change the given values: `name`, `schedule`, `task`, `args` and the options of `create`.

        None removes an option. A schedule without a time zone keeps the job's zone, and an unchanged period its anchor;
        another schedule counts from now on. Everything is checked before anything is written. Without changes, the job
        is only planned anew by its owner's current time zone. Raises UnknownJob, JobExists, JobChanged, and the errors
        of `create`. The declaration in code or a file holds again when that is changed.
        """
        return self._call(lambda: self._async.update(name, of_owner=of_owner, check_task=check_task, **changes))

    def enable(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Enable a job: it fires from now on, and its failures are reset. Raises BadSetting if it has no fire left."""
        return self._call(lambda: self._async.enable(name, owner=owner))

    def disable(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Disable a job: it does not fire until it is enabled; its runs go on."""
        return self._call(lambda: self._async.disable(name, owner=owner))

    def remove(self, name: Job | str, *, owner: str | None = None) -> None:
        """Delete a job and the records of its fires; its runs stay, and go on. Raises UnknownJob.

        A job that is declared in code cannot be removed while a worker declares it. One that is declared in a file
        comes back when the file is read again.
        """
        self._call(lambda: self._async.remove(name, owner=owner))

    def run(self, name: Job | str, *, force: bool = True, owner: str | None = None) -> Receipt:
        """Fire a job now, whatever its schedule says, even if it is disabled; its next fire stays the same.

        With `force=False` only if it is due: else the receipt says skipped, `not_due`. The job's overlap rule applies:
        skipped, `overlap`.
        """
        return self._call(lambda: self._async.run(name, force=force, owner=owner))

    def declare(
        self, name: str, schedule: object, task: object, args: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        """Declare a job in code, as `schedule=` on a task does, before the worker starts. Raises as `create`.

        Only processes that declare it fire it. An operator may enable, disable and change it.
        """
        self._async.declare(name, schedule, task, args, **options)

    def keep_zones(self) -> None:
        """Say that this process does not know the app's time zones: a job without a zone stays in the one of its plan.

        For tools that open a store without the app, and so without its `tz` and `owner_zone`.
        """
        self._async.keep_zones()

    def get(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Return a job by its name, its id or the beginning of its id. Raises UnknownJob, also if several match."""
        return self._call(lambda: self._async.get(name, owner=owner))

    def list(
        self,
        *,
        owner: str | None = None,
        task: Any = None,
        source: Source | str | None = None,
        enabled: bool | None = None,
        limit: int = 100,
        after: tuple[str, str] = ("", ""),
    ) -> List[Job]:
        """Return up to `limit` matching jobs after a cursor, ordered by (name, id)."""
        return self._call(
            lambda: self._async.list(owner=owner, task=task, source=source, enabled=enabled, limit=limit, after=after)
        )

    def runs(
        self, name: Job | str, *, owner: str | None = None, limit: int = 20, before: int | None = None
    ) -> List[Fire]:
        """Return the job's fires, newest first; `before` is the number to go on from."""
        return self._call(lambda: self._async.runs(name, owner=owner, limit=limit, before=before))

    def preview(self, job: Job | Schedule | str, n: int = 10, *, owner: str | None = None) -> List[Preview]:
        """Return the next `n` fires of a job, enabled or not, or of a schedule: each (at, local, note).

        A note says what is special about a fire because clocks change. While a job is held back, fires that will be
        skipped are left out. Text is a job's name, or a schedule in words.
        """
        return self._call(lambda: self._async.preview(job, n, owner=owner))

    def upcoming(self, limit: int = 20) -> List[NextFire]:
        """Return the next fires of all enabled jobs, in order. An overdue one has the time when it was due."""
        return self._call(lambda: self._async.upcoming(limit))
