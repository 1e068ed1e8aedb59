"""Jobs: keep them, find those that are due, and fire each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord, Source


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; a field that is None matches all. `named` is a name or an id."""

    named: str | None = None
    owner: str | None = None
    task: str | None = None
    source: Source | None = None
    on: bool | None = None  # whether it fires


class DueJobs(msgspec.Struct, frozen=True):
    """Jobs that are due at the store's time, the longest due first. `next_at` is when the next job will be due.

    `behind` is how many microseconds the store's time is behind the latest time at which a job was written.
    """

    now: int
    jobs: list[JobRecord] = []
    next_at: int | None = None
    behind: int = 0


class AddJob(msgspec.Struct, frozen=True):
    """Keep a new job. Raises JobExists if its owner has one of that name.

    Repeatable: if there is a job of that id already, nothing changes, and that job is returned. The caller sets
    `created_at` to the store's time, which it has read before.
    """

    job: JobRecord


class EditJob(msgspec.Struct, frozen=True):
    """Write a changed job, if it still has the version that was read. Raises JobExists as `AddJob`.

    Repeatable by `job.call`: what that call wrote last is returned again.
    """

    job: JobRecord


class RemoveJob(msgspec.Struct, frozen=True):
    """Forget a job and its records; the runs that it made stay. A repeat finds no such job."""

    job_id: str


JobChange: TypeAlias = AddJob | EditJob | RemoveJob


class JobStore(Protocol):
    """Keeps jobs. `core.jobs` decides on a version of a job, and the store writes if the job still has that version.

    A run that a firing makes is linked to its job (`RunLinks.job`). The atomic step that ends such a run also writes
    the consequences for the job (`core.jobs.after.ended`). When the soonest `fire_at` becomes sooner, every live worker
    is woken: `StepReply.fires_in` is the time until it is due.
    """

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return up to `limit` jobs that fit, by (name, id), behind `after`."""
        ...

    async def change_job(self, change: JobChange) -> JobRecord | None:
        """Make this change; return the job as it is kept then, or as it was before it was removed.

        Returns None if nothing was changed: another version, or no such job. Each kind says what a repeat returns.
        """
        ...

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        """Return up to `limit` jobs that are due, by (`fire_at`, id), behind `after`. It changes nothing.

        The cost does not grow with the jobs that are not due.
        """
        ...

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        """Write these firings in one atomic step, each if its job still has that version; see `core.jobs.after`.

        A run is not made again if the job has a record of its id, or if the store knows it. The other runs are accepted
        as submissions are: a session may refuse one by the job's overlap rule, a disabled task refuses them all, and
        neither affects the other firings. The newest 1,000 records of a job are kept. Repeating it is harmless.
        """
        ...

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        """Return up to `limit` records of the job, newest first, of numbers smaller than `before`."""
        ...

    async def restart_time(self) -> None:
        """Make the store's present time the latest: the caller has corrected all that was planned by a later one."""
        ...
