"""The verbs of jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.core.transfer.move_state import refuse_change, refuse_new
from laneway.ports.jobs import AddJob, DueJobs, EditJob, JobChange, JobFilter, RemoveJob
from laneway.stores.memory.verbs.base import MemoryVerbs


class JobVerbs(MemoryVerbs, ABC):
    """Keeps and fires jobs; see `JobStore`."""

    async def change_job(self, change: JobChange) -> JobRecord | None:
        """Add, edit or remove a job; see `JobStore`."""
        with self._changed():
            jobs, now = self._state.jobs, self._clock.now()
            match change:
                case AddJob(job):
                    return jobs.add(job, now)
                case EditJob(job):
                    return jobs.change(job, now)
                case RemoveJob(job_id):
                    return jobs.remove(job_id)

    async def jobs(self, wanted: JobFilter, *, limit: int = 100, after: tuple[str, str] = ("", "")) -> list[JobRecord]:
        """Return jobs by name; see `JobStore`."""
        with self._lock:
            return self._state.jobs.listed(wanted, limit, after)

    async def due_jobs(self, *, limit: int = 500, after: tuple[int, str] = (0, "")) -> DueJobs:
        """Return what is due; see `JobStore`."""
        with self._lock:
            return self._state.jobs.due(self._clock.now(), limit, after)

    async def fire(self, firings: Sequence[Firing]) -> list[Fired]:
        """Write firings; see `JobStore`."""
        with self._changed():
            refuse_new(self._state.moving)
            now = self._clock.now()
            self._make_due(now)
            return [self._state.jobs.fire(firing, now) for firing in firings]

    async def fires(self, job_id: str, *, limit: int = 20, before: int | None = None) -> list[FireRecord]:
        """Return a job's records, newest first; see `JobStore`."""
        with self._lock:
            return self._state.jobs.fires(job_id, limit, before)

    async def restart_time(self) -> None:
        """Make the time of now the latest time; see `JobStore`."""
        with self._lock:
            refuse_change(self._state.moving)
            self._state.jobs.restart_time(self._clock.now())

    @abstractmethod
    def _make_due(self, now: int) -> None:
        """Let due runs join their sessions, before any run that is accepted later."""
