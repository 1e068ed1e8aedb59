"""The verbs of jobs; see `JobStore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.ports.jobs import AddJob, DueJobs, EditJob, JobChange, JobFilter, RemoveJob
from laneway.stores.redis.codec import jobs as codec
from laneway.stores.redis.codec.decode import receipt
from laneway.stores.redis.codec.encode import submission
from laneway.stores.redis.verbs.script_caller import ScriptCaller

_ON = {None: 0, True: 1, False: 2}


class JobVerbs:
    """Keeps and fires jobs."""

    def __init__(self, scripts: ScriptCaller) -> None:
        self._scripts = scripts

    async def change_job(self, change: JobChange) -> JobRecord | None:
        """Add, edit or remove a job; return it, None if nothing was changed."""
        match change:
            case AddJob(job):
                row = await self._scripts.call("jobs/add", *_written(job))
            case EditJob(job):
                row = await self._scripts.call("jobs/change", *_written(job))
            case RemoveJob(job_id):
                row = await self._scripts.call("jobs/remove", job_id)
            case _:
                assert_never(change)
        return codec.job_of(row) if row else None

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return jobs that fit, by name and id."""
        found: dict[tuple[str, str], JobRecord] = {}
        cursor: Sequence[str] = after
        values = [
            False if value is None else value for value in (wanted.named, wanted.owner, wanted.task, wanted.source)
        ]
        while cursor and len(found) < limit:
            rows, *cursor = await self._scripts.call("jobs/list", *cursor, limit, *values, _ON[wanted.on])
            found |= {(job.spec.name, job.id): job for job in map(codec.job_of, rows)}
        return [found[key] for key in sorted(found)[: max(0, limit)]]

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        """Return the jobs that are due."""
        now, rows, next_at, behind = await self._scripts.call("jobs/due", limit, *after)
        return DueJobs(now, [codec.job_of(row) for row in rows], None if next_at is False else next_at, behind)

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        """Write firings, each if its job still has the version."""
        written = [
            codec.written_firing(firing, await self._spread_at(firing), [submission(run) for run in firing.runs])
            for firing in firings
        ]
        return [
            Fired(won, tuple([None if packed is False else receipt(packed) for packed in receipts]))
            for won, receipts in await self._scripts.call("jobs/fire", written)
        ]

    async def _spread_at(self, firing: Firing) -> int | None:
        """Return when the job's next fire after this firing is due, if nothing holds it back."""
        state = firing.state
        if state is None or codec.is_spread(state):
            return None if state is None else state.fire_at
        # The fire is held back, so only the schedule knows. If the schedule changes meanwhile, the job gets another
        # version, and this firing is not written.
        named = await self.jobs(JobFilter(named=firing.job_id))
        jobs = [msgspec.structs.replace(job, state=state) for job in named if job.id == firing.job_id]
        return codec.spread_at(jobs[0]) if jobs else state.fire_at

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        """Return the records of a job's fires, newest first."""
        rows = await self._scripts.call("jobs/fires", job_id, limit, False if before is None else before)
        return [codec.record_of(row) for row in rows]

    async def restart_time(self) -> None:
        """Set the latest time at which a job was written to now."""
        await self._scripts.call("jobs/restart_time")


def _written(job: JobRecord) -> tuple[str, list[object], str]:
    return job.id, codec.written(job), codec.spec_text(job.spec)
