"""The blocking twin of `app.jobs`. This layer does not know tasks: they are Any here."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from laneway.core.jobs.fires import Fire, NextFire
from laneway.core.jobs.job import Job
from laneway.core.jobs.record import Source
from laneway.core.records.run import Receipt
from laneway.core.schedules import Schedule
from laneway.core.schedules.preview import Preview
from laneway.sync.desks import SyncDesk

List = builtins.list  # the class here has a method of that name


class SyncJobs(SyncDesk):
    """The jobs, as `app.sync.jobs`."""

    def owned_by(self, user: str) -> SyncJobs:
        """Return the same desk for one owner."""
        return SyncJobs(self._twin.owned_by(user), self._call)

    def get(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Return a job by its name, its id or the beginning of that."""
        found: Job = self._call(lambda: self._twin.get(name, owner=owner))
        return found

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
        wanted = {"owner": owner, "task": task, "source": source, "enabled": enabled}
        found: List[Job] = self._call(lambda: self._twin.list(**wanted, limit=limit, after=after))
        return found

    def runs(
        self, name: Job | str, *, owner: str | None = None, limit: int = 20, before: int | None = None
    ) -> List[Fire]:
        """Return what became of the job's fires, newest first."""
        found: List[Fire] = self._call(lambda: self._twin.runs(name, owner=owner, limit=limit, before=before))
        return found

    def preview(self, job: Job | Schedule | str, n: int = 10, *, owner: str | None = None) -> List[Preview]:
        """Return the next `n` fires of a job or a schedule."""
        found: List[Preview] = self._call(lambda: self._twin.preview(job, n, owner=owner))
        return found

    def upcoming(self, limit: int = 20) -> List[NextFire]:
        """Return the next fires of all jobs that are enabled, in order."""
        found: List[NextFire] = self._call(lambda: self._twin.upcoming(limit))
        return found

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
        """Make a job."""
        made: Job = self._call(lambda: self._twin.create(name, schedule, task, args, check_task=check_task, **options))
        return made

    def update(
        self, name: Job | str, /, *, of_owner: str | None = None, check_task: bool = True, **changes: Any
    ) -> Job:
        """Change what is given, and nothing else."""
        changed: Job = self._call(lambda: self._twin.update(name, of_owner=of_owner, check_task=check_task, **changes))
        return changed

    def enable(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Let a job fire again, from now on."""
        enabled: Job = self._call(lambda: self._twin.enable(name, owner=owner))
        return enabled

    def disable(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Let a job fire no more, until it is enabled."""
        disabled: Job = self._call(lambda: self._twin.disable(name, owner=owner))
        return disabled

    def remove(self, name: Job | str, *, owner: str | None = None) -> None:
        """Forget a job and the records of its fires."""
        self._call(lambda: self._twin.remove(name, owner=owner))

    def run(self, name: Job | str, *, force: bool = True, owner: str | None = None) -> Receipt:
        """Fire a job now, or only if it is due."""
        receipt: Receipt = self._call(lambda: self._twin.run(name, force=force, owner=owner))
        return receipt

    def declare(
        self, name: str, schedule: object, task: object, args: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        """Declare a job in code, before the worker starts."""
        self._twin.declare(name, schedule, task, args, **options)
