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
        """Return the same desk for one owner: it makes jobs for them, and sees and changes no others."""
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
        """Make a job: `schedule` (an object, or a line such as "0 9 * * 1-5") starts `task` with these arguments.

        Options: `tz` (of a line), `lane`, `user`, `session`, `priority`, `owner`, `description`, `enabled`, `misfire`
        (skip, once, all), `max_staleness`, `overlap` (skip, queue, interrupt, allow), `delete_after_run`,
        `run_on_start`, `timeout`, `retry`, `breaker`, `backoff`, `backoff_cap`, `alert_after`, `enabled_when`.
        `check_task=False` takes a task that only other processes know. Raises JobExists, UnknownTask, BadArguments or
        BadSetting, and then nothing is stored.
        """
        return self._call(lambda: self._async.create(name, schedule, task, args, check_task=check_task, **options))

    def update(
        self, name: Job | str, /, *, of_owner: str | None = None, check_task: bool = True, **changes: Any
    ) -> Job:
        """Change what is given, of `name`, `schedule`, `task`, `args` and the options of `create`, and nothing else.

        None takes an option back. A schedule without a time zone keeps the job's, and a period that stays the same
        its anchor; another schedule counts from now on. All is checked before anything is written. With nothing to
        change, it only plans the job anew by the time zone that its owner has now. Raises UnknownJob, JobExists,
        JobChanged, and as `create`. What is declared in code or a file holds again when that is changed.
        """
        return self._call(lambda: self._async.update(name, of_owner=of_owner, check_task=check_task, **changes))

    def enable(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Let a job fire again, from now on; its failures are forgotten. Raises BadSetting if it has no fire left."""
        return self._call(lambda: self._async.enable(name, owner=owner))

    def disable(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Let a job fire no more, until it is enabled; what runs of it goes on."""
        return self._call(lambda: self._async.disable(name, owner=owner))

    def remove(self, name: Job | str, *, owner: str | None = None) -> None:
        """Forget a job and the records of its fires; its runs stay, and go on. Raises UnknownJob.

        One that is declared in code cannot be removed while a worker declares it; one that is declared in a file comes
        back when the file is read again.
        """
        self._call(lambda: self._async.remove(name, owner=owner))

    def run(self, name: Job | str, *, force: bool = True, owner: str | None = None) -> Receipt:
        """Fire a job now, whatever its schedule says, also if it is disabled; its plan stays as it is.

        With `force=False` only if it is due: else the receipt says skipped, `not_due`. The job's overlap rule holds:
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
        """Say that this process cannot tell time zones: a job that names none stays in the one that it is planned in.

        It is for tools that open a store without the app, and so without its `tz` and `owner_zone`.
        """
        self._async.keep_zones()

    def get(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Return a job by its name, its id or the beginning of that. Raises UnknownJob, also if several fit."""
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
        """Return up to `limit` jobs that fit, by (name, id), behind `after`."""
        return self._call(
            lambda: self._async.list(owner=owner, task=task, source=source, enabled=enabled, limit=limit, after=after)
        )

    def runs(
        self, name: Job | str, *, owner: str | None = None, limit: int = 20, before: int | None = None
    ) -> List[Fire]:
        """Return what became of the job's fires, newest first; `before` is the number to go on from."""
        return self._call(lambda: self._async.runs(name, owner=owner, limit=limit, before=before))

    def preview(self, job: Job | Schedule | str, n: int = 10, *, owner: str | None = None) -> List[Preview]:
        """Return the next `n` fires of a job, enabled or not, or of a schedule: each (at, local, note).

        A note says what is strange about it because a clock is changed. While a job is held back, those that will be
        skipped are left out. Text is a job's name, or a schedule in words.
        """
        return self._call(lambda: self._async.preview(job, n, owner=owner))

    def upcoming(self, limit: int = 20) -> List[NextFire]:
        """Return the next fires of all jobs that are enabled, in order. One that is overdue comes with its time."""
        return self._call(lambda: self._async.upcoming(limit))
