"""Jobs in the memory store: records, the order in which they are due, and firings."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import attrgetter

import msgspec

from laneway.core.jobs.after import alarm, applied, ended
from laneway.core.jobs.fire_decision import Fired, Firing
from laneway.core.jobs.record import FIRES_KEPT, FireRecord, JobRecord
from laneway.core.records.run import NewRun, Receipt
from laneway.errors import JobExists
from laneway.ports.jobs import DueJobs, JobFilter
from laneway.stores.memory.state.records import RunRecord

Place = tuple[int, str]  # when it is due, and its id
SPARE = 64  # outdated places, beside one per job, before they are cleared away


class JobRecords:
    """All jobs, and in which order they are due. The store holds the lock.

    `accept` takes a fire's run, or returns None if it is known. The order is a heap of those to come, and a sorted list
    of those that have come and were not fired yet. A place whose job has moved on is passed over when somebody comes
    across it.
    """

    accept: Callable[[NewRun, int], Receipt | None]

    def __init__(self) -> None:
        self._jobs: dict[str, JobRecord] = {}
        self._names: dict[tuple[str | None, str], str] = {}
        self._fires: defaultdict[str, list[FireRecord]] = defaultdict(list)  # by job, in the order of their numbers
        self._recorded: set[str | None] = set()  # the ids of the runs in them
        self._coming: list[Place] = []
        self._due: list[Place] = []
        self._gone = 0  # how many places at the list's beginning are done with
        self._latest = 0  # the latest time that anything was written at
        self._soonest: int | None = None  # as workers know it
        self._moved = False  # a job is due at another time since then

    # Keeping

    def add(self, job: JobRecord, now: int) -> JobRecord:
        """Keep a new job; see `ports.jobs.AddJob`."""
        if job.id not in self._jobs:
            self._check_name(job)
            self._names[job.spec.owner, job.spec.name] = job.id
            self._put(job, now)
        return self._jobs[job.id]

    def change(self, job: JobRecord, now: int) -> JobRecord | None:
        """Write a changed job; see `ports.jobs.EditJob`."""
        known = self._jobs.get(job.id)
        if known is None or (known.call == job.call and job.call):
            return known
        if known.version != job.version:
            return None
        self._check_name(job)
        del self._names[known.spec.owner, known.spec.name]
        self._names[job.spec.owner, job.spec.name] = job.id
        self._put(msgspec.structs.replace(job, version=job.version + 1), now)
        return self._jobs[job.id]

    def remove(self, job_id: str) -> JobRecord | None:
        """Forget a job; return it as it was. See `ports.jobs.RemoveJob`."""
        job = self._jobs.pop(job_id, None)
        if job is not None:
            del self._names[job.spec.owner, job.spec.name]
            self._recorded.difference_update(record.run_id for record in self._fires.pop(job_id, ()))
            self._moved = True
        return job

    def listed(self, wanted: JobFilter, limit: int, after: tuple[str, str]) -> list[JobRecord]:
        """Return jobs by name; see `JobStore.jobs`."""
        fitting = ((job.spec.name, job.id) for job in self._jobs.values() if _fits(job, wanted))
        return [
            self._jobs[job_id] for _, job_id in sorted(place for place in fitting if place > after)[: max(0, limit)]
        ]

    def fires(self, job_id: str, limit: int, before: int | None) -> list[FireRecord]:
        """Return records, newest first; see `JobStore.fires`."""
        fitting = (one for one in reversed(self._fires.get(job_id, ())) if before is None or one.nth < before)
        return list(islice(fitting, max(0, limit)))

    # Moving

    @property
    def latest(self) -> int:
        """The latest time that anything was written at."""
        return self._latest

    def everything(self) -> list[tuple[JobRecord, tuple[FireRecord, ...]]]:
        """Return all jobs by id, each with its records."""
        return [(job, tuple(self._fires.get(job.id, ()))) for job in sorted(self._jobs.values(), key=_by_id)]

    def bring(self, job: JobRecord, fires: Iterable[FireRecord]) -> None:
        """Keep a job of another store as it was there; an existing one stays."""
        if job.id not in self._jobs:
            self._names[job.spec.owner, job.spec.name] = job.id
            self._put(job, self._latest)
            self._keep(self._fires[job.id], fires)

    def clear(self) -> None:
        """Forget all jobs."""
        for job_id in list(self._jobs):
            self.remove(job_id)
        self._latest = 0

    # Firing

    def due(self, now: int, limit: int, after: Place) -> DueJobs:
        """Return what is due; see `JobStore.due_jobs`."""
        self._sort_out(now)
        get, found = self._jobs.get, list[JobRecord]()
        first = bisect_right(self._due, after, self._gone)
        while some := self._due[first : first + max(0, limit - len(found))]:
            # As `_stands`: a call less for every job.
            found += [job for at, job_id in some if (job := get(job_id)) is not None and job.state.fire_at == at]
            first += len(some)
        next_at = self._coming[0][0] if self._coming else None
        return DueJobs(now, found, next_at, max(0, self._latest - now))

    def fire(self, firing: Firing, now: int) -> Fired:
        """Write a firing; see `JobStore.fire`."""
        job = self._jobs.get(firing.job_id)
        if job is None or (firing.version is not None and firing.version != job.version):
            return Fired(False)
        receipts: tuple[Receipt | None, ...] = ()
        if firing.runs:
            receipts = tuple([None if run.id in self._recorded else self.accept(run, now) for run in firing.runs])
            # Accepting a run may have ended other runs of the job, so the job is read again.
            job = self._jobs.get(firing.job_id, job)
        kept = self._fires[job.id]
        after, records = applied(job, firing, receipts, now, kept[-1] if kept else None)
        self._put(after, now)
        self._keep(kept, records)
        return Fired(True, receipts)

    def hear(self, run: RunRecord, now: int) -> None:
        """Apply the end of a job's run to the job."""
        tie = None if run.ties is None else run.ties.job
        job = None if tie is None else self._jobs.get(tie.id)
        if job is None:
            return
        error = None if run.failure is None else run.failure.message
        after = ended(job, run.id, run.state, error, now, by_hand=tie is not None and tie.by_hand)
        if after is None:
            self.remove(job.id)
            return
        self._put(after, now)
        told = alarm(job, after, error, now)
        if told is not None:
            self._keep(self._fires[job.id], [told])

    def restart_time(self, now: int) -> None:
        """Make this the latest time; see `JobStore.restart_time`."""
        self._latest = now

    def soonest(self) -> int | None:
        """Return the fire time of the job that is due first."""
        due, coming = self._due, self._coming
        while self._gone < len(due) and not self._stands(due[self._gone]):
            self._gone += 1
        if self._gone * 2 > len(due):
            del due[: self._gone]
            self._gone = 0
        while coming and not self._stands(coming[0]):
            heappop(coming)
        if not due:
            return coming[0][0] if coming else None
        first = due[self._gone][0]
        return min(first, coming[0][0]) if coming else first

    def is_sooner(self) -> bool:
        """Return whether the soonest fire is sooner than at the last call."""
        if not self._moved:
            return False
        before, self._soonest, self._moved = self._soonest, self.soonest(), False
        return self._soonest is not None and (before is None or self._soonest < before)

    def _put(self, job: JobRecord, now: int) -> None:
        jobs, job_id, fire_at = self._jobs, job.id, job.state.fire_at
        known = jobs.get(job_id)
        jobs[job_id] = job
        self._latest = max(self._latest, now)
        if known is None or known.state.fire_at != fire_at:
            self._moved = True
            if fire_at is not None:
                heappush(self._coming, (fire_at, job_id))
            if len(self._coming) > 2 * len(jobs) + SPARE:
                self._coming = [place for place in set(self._coming) if self._stands(place)]
                heapify(self._coming)

    def _keep(self, kept: list[FireRecord], records: Iterable[FireRecord]) -> None:
        """Add records to a job; the first may replace the newest. Delete the oldest."""
        for record in records:
            if kept and kept[-1].nth == record.nth:
                kept.pop()
            kept.append(record)
            if record.run_id is not None:
                self._recorded.add(record.run_id)
        while len(kept) > FIRES_KEPT:
            self._recorded.discard(kept.pop(0).run_id or "")

    def _sort_out(self, now: int) -> None:
        """Move jobs that have become due to the list of due jobs."""
        self.soonest()
        coming, due = self._coming, self._due
        while coming and coming[0][0] <= now:
            place = heappop(coming)
            if not due or place > due[-1]:
                due.append(place)  # as usual: they become due one after the other
            else:
                spot = bisect_right(due, place, self._gone)
                if spot == self._gone or due[spot - 1] != place:
                    due.insert(spot, place)
        while coming and not self._stands(coming[0]):
            heappop(coming)
        # The clock may have been set back.
        while due and due[-1][0] > now:
            place = due.pop()
            if self._stands(place):
                heappush(coming, place)
        self._gone = min(self._gone, len(due))

    def _stands(self, place: Place) -> bool:
        job = self._jobs.get(place[1])
        return job is not None and job.state.fire_at == place[0]

    def _check_name(self, job: JobRecord) -> None:
        other = self._names.get((job.spec.owner, job.spec.name))
        if other is not None and other != job.id:
            raise JobExists(job.spec.name, other)


_by_id = attrgetter("id")


def _fits(job: JobRecord, wanted: JobFilter) -> bool:
    return (
        (wanted.named is None or wanted.named in (job.spec.name, job.id))
        and (wanted.owner is None or wanted.owner == job.spec.owner)
        and (wanted.task is None or wanted.task == job.spec.task)
        and (wanted.source is None or wanted.source is job.spec.source)
        and (wanted.on is None or wanted.on is job.is_on)
    )
