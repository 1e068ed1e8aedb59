"""Reading jobs: their state, their past fires, their next fires. It changes nothing."""

from __future__ import annotations

import builtins
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Any

from laneway.core.common.checks import checked_choice, checked_count, checked_name
from laneway.core.common.instants import instant
from laneway.core.jobs.anchor import anchored_rule
from laneway.core.jobs.fires import Fire, NextFire
from laneway.core.jobs.job import Job
from laneway.core.jobs.plan import awaits_end, next_of, spread
from laneway.core.jobs.record import FireRecord, JobRecord, Source
from laneway.core.records.run import Run
from laneway.core.schedules import Schedule
from laneway.core.schedules.preview import Preview, preview, shown
from laneway.core.schedules.text import read
from laneway.engine.client.admin import AdminApi, Opened
from laneway.engine.client.client import Client
from laneway.engine.handlers.task import Task
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.lookup import JobLookup
from laneway.engine.jobs.sync import all_jobs, store_time
from laneway.errors import BadSetting, LanewayError, UnknownJob, UnknownRun
from laneway.ports.jobs import JobFilter
from laneway.ports.store import Store

List = builtins.list  # the class here has a method of that name
MOST = 1000  # fires that one preview shows


class JobQueries(AdminApi):
    """The reading methods of `app.jobs`."""

    def __init__(self, opened: Opened, client: Client, environment: JobEnvironment, whose: str | None = None) -> None:
        super().__init__(opened, client)
        self._environment, self._lookup = environment, JobLookup(client, whose)

    def keep_zones(self) -> None:
        """Say that this process does not know the app's time zones: a job without a zone stays in the one of its plan.

        For tools that open a store without the app, and so without its `tz` and `owner_zone`.
        """
        self._environment.keeps_zones = True

    async def get(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Return a job by its name, its id or the beginning of its id. Raises UnknownJob, also if several match."""
        store = await self._opened()
        [job] = await self._lookup.seen(store, [await self._lookup.find(store, name, owner)])
        return job

    async def list(
        self,
        *,
        owner: str | None = None,
        task: Any = None,
        source: Source | str | None = None,
        enabled: bool | None = None,
        limit: int = 100,
        after: tuple[str, str] = ("", ""),
    ) -> List[Job]:
        """Return up to `limit` matching jobs after a cursor, ordered by (name, id)."""
        checked_count(limit, "limit")
        if not isinstance(after, tuple) or len(after) != 2 or not all(isinstance(part, str) for part in after):
            raise BadSetting(f"after is {after!r}; it is the (name, id) to go on behind")
        if enabled not in (None, True, False):
            raise BadSetting(f"enabled is {enabled!r}; it must be True or False, or None for both")
        wanted = self._lookup.within(
            JobFilter(
                owner=None if owner is None else checked_name(owner, "job's owner"),
                task=task.name if isinstance(task, Task) else task,
                source=None if source is None else checked_choice(Source, source, "source"),
                on=enabled,
            )
        )
        store = await self._opened()
        if wanted is None:
            return []
        return await self._lookup.seen(
            store, await self._client.repeated(lambda: store.jobs(wanted, limit=limit, after=after))
        )

    async def runs(
        self, name: Job | str, *, owner: str | None = None, limit: int = 20, before: int | None = None
    ) -> List[Fire]:
        """Return the job's fires, newest first; `before` is the number to go on from."""
        checked_count(limit, "limit")
        if before is not None:
            checked_count(before, "before")
        store = await self._opened()
        job = await self._lookup.find(store, name, owner)
        records = await self._client.repeated(lambda: store.fires(job.id, limit=limit, before=before))
        return [Fire.of(record, await self._run_of(store, record)) for record in records]

    async def preview(self, job: Job | Schedule | str, n: int = 10, *, owner: str | None = None) -> List[Preview]:
        """Return the next `n` fires of a job, enabled or not, or of a schedule: each (at, local, note).

        A note says what is special about a fire because clocks change. While a job is held back, fires that will be
        skipped are left out. Text is a job's name, or a schedule in words.
        """
        if checked_count(n, "n") > MOST:
            raise BadSetting(f"n is {n}; at most {MOST} fires are shown")
        store = await self._opened()
        found = await self._previewed(store, job, owner)
        now = await store_time(store, self._client)
        if isinstance(found, Schedule):
            return preview(anchored_rule(found, now), instant(now), self._environment.tz, n)
        zone, rule, next_at = self._environment.zone_of(found), found.spec.rule, found.state.next_at
        if awaits_end(rule) and next_at is not None:
            return shown(rule, [instant(next_at), *islice(rule.fires(instant(next_at), zone), n - 1)], zone)
        return preview(rule, instant(max(now, found.state.held_until or 0)), zone, n)

    async def upcoming(self, limit: int = 20) -> List[NextFire]:
        """Return the next fires of all enabled jobs, in order. An overdue one has the time when it was due."""
        checked_count(limit, "limit")
        store, wanted = await self._opened(), self._lookup.within(JobFilter(on=True))
        jobs = [] if wanted is None else await all_jobs(store, self._client, wanted)
        now = await store_time(store, self._client)
        dated = sorted(
            (one.state.fire_at, one.id, one.state.next_at, one)
            for one in jobs
            if one.state.fire_at is not None and one.state.next_at is not None
        )
        first = [*islice((place for place in dated if _readable(place[3])), limit)]
        seen = {job.id: job for job in await self._lookup.seen(store, [one for _, _, _, one in first])}
        return [self._next_fire(seen[one.id], at, nominal) for at, nominal, one in self._in_order(first, limit, now)]

    def _in_order(
        self, heap: List[tuple[int, str, int, JobRecord]], limit: int, now: int
    ) -> List[tuple[int, int, JobRecord]]:
        """Return that many fires, beginning with the first of each job."""
        heapify(heap)
        fires: List[tuple[int, int, JobRecord]] = []
        while heap and len(fires) < limit:
            at, key, nominal, job = heap[0]
            fires.append((at, nominal, job))
            rule = job.spec.rule
            following = None if awaits_end(rule) else next_of(rule, max(at, now), self._environment.zone_of(job))
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (spread(job, following), key, following, job))
        return fires

    def _next_fire(self, job: Job, at: int, nominal: int) -> NextFire:
        zone = job.zone if self._environment.keeps_zones else self._environment.zone(job.spec)
        [fire] = shown(job.schedule, [instant(nominal)], zone)
        due = instant(at)
        return NextFire(job=job, at=due, local=due.astimezone(fire.local.tzinfo), note=fire.note)

    async def _previewed(self, store: Store, job: Job | Schedule | str, owner: str | None) -> Schedule | JobRecord:
        if isinstance(job, Schedule):
            return job
        try:
            return await self._lookup.find(store, job, owner)
        except UnknownJob:
            if not isinstance(job, str) or not (" " in job.strip() or job.startswith("@")):
                raise
            return read(job)

    async def _run_of(self, store: Store, record: FireRecord) -> Run | None:
        run_id = record.run_id
        if run_id is None:
            return None
        try:
            return await self._client.repeated(lambda: store.get(run_id))
        except UnknownRun:
            return None  # it was pruned


def _readable(job: JobRecord) -> bool:
    try:
        return bool(job.spec.rule)
    except LanewayError:
        return False
