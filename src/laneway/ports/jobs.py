"""Jobs: keeping them, finding those that are due, and firing them once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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


class JobStore(Protocol):
    """Keeps jobs. What they do is decided elsewhere (`core.jobs`), on a version, and written if it is still that.

    A run that a firing makes is linked to its job (`RunLinks.job`). Whoever ends such a run writes what that does to
    the job (`core.jobs.after.ended`) in the same atomic step. When the soonest `fire_at` becomes sooner, every live
    worker is woken: `StepReply.fires_in` tells how long until it is due.
    """

    async def add_job(self, job: JobRecord) -> JobRecord:
        """Keep a new job; return it as it is kept. Raises JobExists if its owner has one of that name.

        Repeatable: of an id that is there already nothing changes. `created_at` is by the caller's time, who asked the
        store for it.
        """
        ...

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return up to `limit` jobs that fit, by (name, id), behind `after`."""
        ...

    async def change_job(self, job: JobRecord) -> JobRecord | None:
        """Write a job that was changed by somebody, at the version it was read; return it as it is kept.

        None if it has another version, or is gone. Raises JobExists if its owner has another one of that name.
        Repeatable by `job.call`: what that call wrote last is returned again.
        """
        ...

    async def remove_job(self, job_id: str) -> bool:
        """Forget a job and its records; tell whether it was there. Runs that it made stay."""
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
