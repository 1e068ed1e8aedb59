"""Declared jobs, by code or by a file, brought into a store: added, changed when the declaration has changed, removed.

What a job is declared as is one thing, what became of it another. A change of the declaration changes the spec; when
it fired last, whether its breaker has opened, what an operator said of it (enable, disable) stay. An operator's patch
stays too, until the declaration is another one. Many processes may do this at once: each change is made of a version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from laneway.core.jobs.anchor import anchored
from laneway.core.jobs.plan import created, next_of, patched
from laneway.core.jobs.record import JobRecord, JobSpec, Source
from laneway.engine.client.client import Client
from laneway.engine.common.ids import new_run_id
from laneway.engine.jobs.environment import JobEnvironment
from laneway.errors import BadSetting, JobChanged, JobExists, UsageError
from laneway.ports.jobs import AddJob, EditJob, JobFilter, RemoveJob
from laneway.ports.store import Store

TRIES = 200  # to change a job that others change too: each of its fires and ends is such a change
PAGE = 1000
_WHERE = {Source.CALL: "by a call", Source.CODE: "in code", Source.FILE: "in a file"}


@dataclass(slots=True)
class Synced:
    """What a sync did, by names of jobs. `passed` are new ones whose time is over; `problems` say what was refused."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


async def sync(
    store: Store,
    client: Client,
    specs: Iterable[JobSpec],
    source: Source,
    origin: str,
    environment: JobEnvironment,
    *,
    remove: bool = True,
) -> Synced:
    """Make the store's jobs of this source and origin those that are declared; tell what that changed.

    Jobs that are not declared any more are removed, but for those of code, which other processes may declare, and not
    at all without `remove`. A name that a job of another source or origin has, or that is reserved for code, is a
    problem of that job alone.
    """
    syncing = _Syncing(store, client, environment, Synced())
    wanted = {(spec.owner, spec.name): spec for spec in specs}
    for spec in wanted.values():
        try:
            await syncing.bring(spec)
        except UsageError as error:
            syncing.done.problems[spec.name] = str(error)
    if remove and source is not Source.CODE:
        for job in await all_jobs(store, client, JobFilter(source=source)):
            if job.spec.origin == origin and (job.spec.owner, job.spec.name) not in wanted:
                await syncing.drop(job)
    return syncing.done


async def all_jobs(store: Store, client: Client, wanted: JobFilter) -> list[JobRecord]:
    """Return all jobs that fit, by name."""
    found: list[JobRecord] = []
    after = ("", "")
    while True:
        page = await client.repeated(partial(store.jobs, wanted, limit=PAGE, after=after))
        found += page
        if len(page) < PAGE:
            return found
        after = (page[-1].spec.name, page[-1].id)


async def store_time(store: Store, client: Client) -> int:
    """Return what time it is for the store."""
    return (await client.repeated(lambda: store.due_jobs(limit=1))).now


def refuse_reserved(name: str, environment: JobEnvironment) -> None:
    """Raise BadSetting if this process declares a job of that name in code."""
    if name in environment.declared:
        raise BadSetting(f"the name {name!r} is reserved: a job of that name is declared in code; use another one")


def digest(spec: JobSpec) -> str:
    """Return what tells one declaration from another."""
    return hashlib.blake2b(msgspec.json.encode(spec), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class _Syncing:
    store: Store
    client: Client
    environment: JobEnvironment
    done: Synced

    async def bring(self, spec: JobSpec) -> None:
        """Add a job, or change the one that is there if it was declared otherwise."""
        if spec.source is not Source.CODE:
            refuse_reserved(spec.name, self.environment)
        declared = msgspec.structs.replace(spec, declared=digest(spec))
        for _ in range(TRIES):
            known = await self._known(spec)
            if known is not None and self._is_as_declared(known, declared):
                return
            now, zone = await store_time(self.store, self.client), self.environment.zone(spec)
            try:
                if known is None:
                    done = await self._add(declared, now, zone)
                else:
                    done = await self._change(known, declared, now, zone)
            except JobExists:
                continue  # somebody was quicker
            if done:
                return
        raise JobChanged(spec.name)

    async def drop(self, job: JobRecord) -> None:
        """Remove a job that is declared no more."""
        if await self.client.repeated(lambda: self.store.change_job(RemoveJob(job.id))):
            self.done.removed.append(job.spec.name)

    async def _known(self, spec: JobSpec) -> JobRecord | None:
        found = await all_jobs(self.store, self.client, JobFilter(named=spec.name, owner=spec.owner))
        return next((job for job in found if (job.spec.owner, job.spec.name) == (spec.owner, spec.name)), None)

    async def _add(self, spec: JobSpec, now: int, zone: str) -> bool:
        spec = anchored(spec, now)
        if next_of(spec.rule, now, zone) is None:
            self.done.passed.append(spec.name)
            return True
        job = created(new_run_id(), spec, now, zone)
        await self.client.repeated(lambda: self.store.change_job(AddJob(job)))
        self.done.added.append(spec.name)
        return True

    def _is_as_declared(self, job: JobRecord, spec: JobSpec) -> bool:
        """Tell whether the job that is there was declared so. Raises BadSetting if it is another's."""
        if (job.spec.source, job.spec.origin) != (spec.source, spec.origin):
            where = job.spec.origin or _WHERE[job.spec.source]
            raise BadSetting(
                f"job {spec.name!r} is declared {_WHERE[spec.source]}, and one of that name was made before"
                f" ({where}); remove that one, or use another name"
            )
        return job.spec.declared == spec.declared

    async def _change(self, job: JobRecord, spec: JobSpec, now: int, zone: str) -> bool:
        changed = patched(job, anchored(spec, now, job.spec), now, zone)
        changed = msgspec.structs.replace(changed, call=new_run_id())
        kept = await self.client.repeated(lambda: self.store.change_job(EditJob(changed)))
        if kept is not None:
            self.done.changed.append(spec.name)
        return kept is not None
