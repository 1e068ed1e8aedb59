"""Jobs: keeping them, finding those that are due, and firing them once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord, Source


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; what is None does not matter. `named` is a name or an id."""

    named: str | None = None
    owner: str | None = None
    task: str | None = None
    source: Source | None = None
    on: bool | None = None  # whether it fires


class DueJobs(msgspec.Struct, frozen=True):
    """Jobs that are due at the store's time, the longest due first; `next_at` is when the first is that is not.

    `behind` is by how much the store's time is behind the latest one that a job was written at, in microseconds.
    """

    now: int
    jobs: list[JobRecord] = []
    next_at: int | None = None
    behind: int = 0


class AddJob(msgspec.Struct, frozen=True):
    """Keep a new job. Raises JobExists if its owner has one of that name.

    Repeatable: if there is a job of that id already, nothing changes, and that job is returned. `created_at` is by the
    time of the caller, who asked the store for it.
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
    """Keeps jobs. What they do is decided elsewhere (`core.jobs`), on a version, and written if it is still that.

    A run that a firing makes is linked to its job (`RunLinks.job`). Whoever ends such a run writes what that does to
    the job (`core.jobs.after.ended`) in the same atomic step. When the soonest `fire_at` becomes sooner, every live
    worker is woken: `StepReply.fires_in` tells how long until it is due.
    """

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return up to `limit` jobs that fit, by (name, id), behind `after`."""
        ...

    async def change_job(self, change: JobChange) -> JobRecord | None:
        """Make this change; return the job as it is kept then, or as it was before it was removed.

        None if nothing was changed: another version, or no such job. Each kind of change says what a repeat returns.
        """
        ...

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        """Return up to `limit` jobs that are due, by (`fire_at`, id), behind `after`. It changes nothing.

        What it costs does not grow with the jobs that are not due.
        """
        ...

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        """Write these firings, each if its job is there at that version, all in one atomic step; see `core.jobs.after`.

        A run whose id the job has a record of, or that is known, is not made again. The others are accepted as
        submissions are: a session may refuse one by the job's overlap rule, a disabled task refuses them all, and
        neither touches the other firings. Of a job's records the newest 1,000 are kept. Repeating it is harmless.
        """
        ...

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        """Return up to `limit` records of the job, newest first, of numbers smaller than `before`."""
        ...

    async def restart_time(self) -> None:
        """Take the store's time as it is for the latest one: what was written later than now has been set right."""
        ...
