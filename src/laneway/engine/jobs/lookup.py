"""Find jobs by name, id or the beginning of an id, and show them; all jobs, or those of one owner."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.jobs.job import Job
from laneway.core.jobs.record import JobRecord, Source
from laneway.engine.client.client import Client
from laneway.engine.jobs.sync import all_jobs, store_time
from laneway.errors import BadSetting, UnknownJob
from laneway.ports.jobs import JobFilter
from laneway.ports.store import Store

SHORTEST = 4  # so many digits may stand for an id
HINTED = 1000  # so many names are compared with an unknown one
_HEX = frozenset("0123456789abcdef")


class JobLookup:
    """Looks up jobs in an open store; only those of `whose`, if that is not None."""

    def __init__(self, client: Client, whose: str | None = None) -> None:
        self._client, self.whose = client, whose

    async def find(self, store: Store, name: object, owner: str | None = None) -> JobRecord:
        """Return the job of that name or id. Raises UnknownJob."""
        if isinstance(name, Job):
            name = name.id
        if not isinstance(name, str):
            raise BadSetting(f"{name!r} is no job; give its name or its id")
        wanted = self.within(JobFilter(named=name, owner=owner))
        found = [] if wanted is None else await self._client.repeated(lambda: store.jobs(wanted, limit=1000))
        if len(found) > 1:
            raise UnknownJob(name, matches=len(found))
        return found[0] if found else await self._by_beginning(store, name, owner)

    async def again(self, store: Store, job: JobRecord) -> JobRecord:
        """Return the job as it is now. Raises UnknownJob if it is gone."""
        found = await self._client.repeated(lambda: store.jobs(JobFilter(named=job.id), limit=1000))
        for one in found:
            if one.id == job.id and self.whose in (None, one.spec.owner):
                return one
        raise UnknownJob(job.spec.name)

    def within(self, wanted: JobFilter) -> JobFilter | None:
        """Return the filter, restricted to the owner; None if nothing can match."""
        if self.whose is None:
            return wanted
        if wanted.owner not in (None, self.whose):
            return None
        return JobFilter(named=wanted.named, owner=self.whose, task=wanted.task, source=wanted.source, on=wanted.on)

    async def seen(self, store: Store, records: Sequence[JobRecord]) -> list[Job]:
        """Return jobs as people see them."""
        declared: frozenset[str] = frozenset()
        if any(record.spec.source is Source.CODE for record in records):
            workers, now = await self._client.repeated(store.workers), await store_time(store, self._client)
            declared = frozenset[str]().union(*(one.incarnation.jobs for one in workers if one.is_up(now)))
        return [
            Job.of(one, orphaned=one.spec.source is Source.CODE and one.spec.name not in declared) for one in records
        ]

    async def _by_beginning(self, store: Store, begun: str, owner: str | None) -> JobRecord:
        wanted = self.within(JobFilter(owner=owner))
        if wanted is None:
            raise UnknownJob(begun)
        if len(begun) >= SHORTEST and _HEX.issuperset(begun):
            found = [job for job in await all_jobs(store, self._client, wanted) if job.id.startswith(begun)]
            if len(found) > 1:
                raise UnknownJob(begun, matches=len(found), by_id=True)
            if found:
                return found[0]
        some = await self._client.repeated(lambda: store.jobs(wanted, limit=HINTED))
        raise UnknownJob(begun, {job.spec.name for job in some})
