"""The Redis store's verbs of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.ports.jobs import AddJob, DueJobs, EditJob, JobChange, JobFilter, RemoveJob
from laneway.stores.redis.codec import jobs as jobforms
from laneway.stores.redis.codec.decode import receipt
from laneway.stores.redis.codec.encode import submission
from laneway.stores.redis.verbs.script_caller import Calling

_ON = {None: 0, True: 1, False: 2}


class Jobs(Calling):
    """Keeps and fires jobs; see `JobStore`."""

    async def change_job(self, change: JobChange) -> JobRecord | None:
        """Add, edit or remove a job; see `JobStore`."""
        match change:
            case AddJob(job):
                row = await self._call("jobs/add", *_written(job))
            case EditJob(job):
                row = await self._call("jobs/change", *_written(job))
            case RemoveJob(job_id):
                row = await self._call("jobs/remove", job_id)
            case _:
                assert_never(change)
        return jobforms.job_of(row) if row else None

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return jobs by name; see `JobStore`."""
        found: dict[tuple[str, str], JobRecord] = {}
        place: Sequence[str] = after
        asked = [
            False if value is None else value for value in (wanted.named, wanted.owner, wanted.task, wanted.source)
        ]
        while place and len(found) < limit:
            rows, *place = await self._call("jobs/list", *place, limit, *asked, _ON[wanted.on])
            found |= {(job.spec.name, job.id): job for job in map(jobforms.job_of, rows)}
        return [found[key] for key in sorted(found)[: max(0, limit)]]

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        """Return what is due; see `JobStore`."""
        now, rows, next_at, behind = await self._call("jobs/due", limit, *after)
        return DueJobs(now, [jobforms.job_of(row) for row in rows], None if next_at is False else next_at, behind)

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        """Write firings; see `JobStore`."""
        written = [
            jobforms.written_firing(firing, await self._spread_at(firing), [submission(run) for run in firing.runs])
            for firing in firings
        ]
        return [
            Fired(won, tuple([None if packed is False else receipt(packed) for packed in receipts]))
            for won, receipts in await self._call("jobs/fire", written)
        ]

    async def _spread_at(self, firing: Firing) -> int | None:
        """Return when the job's next fire is due then if nothing holds it back."""
        state = firing.state
        if state is None or jobforms.is_spread(state):
            return None if state is None else state.fire_at
        # It is held back, so its schedule must say. If somebody changes that meanwhile, the job has another version,
        # and nothing of this firing is written.
        named = await self.jobs(JobFilter(named=firing.job_id))
        jobs = [msgspec.structs.replace(job, state=state) for job in named if job.id == firing.job_id]
        return jobforms.spread_at(jobs[0]) if jobs else state.fire_at

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        """Return a job's records, newest first; see `JobStore`."""
        rows = await self._call("jobs/fires", job_id, limit, False if before is None else before)
        return [jobforms.record_of(row) for row in rows]

    async def restart_time(self) -> None:
        """Take the time as it is; see `JobStore`."""
        await self._call("jobs/restart_time")


def _written(job: JobRecord) -> tuple[str, list[object], str]:
    return job.id, jobforms.written(job), jobforms.spec_text(job.spec)
