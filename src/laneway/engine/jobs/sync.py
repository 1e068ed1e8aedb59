"""Brings declared jobs, from code or a file, into a store: adds, changes and removes them.

A job's declaration and its history are separate. A changed declaration changes the spec. When the job fired last,
whether its breaker is open, and whether an operator enabled or disabled it, all that stays. An operator's patch stays,
too, until the declaration changes. Many processes may do this at the same time: each change names the job's version.
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

TRIES = 200  # to change a job that others change too; each fire, and each end of a run, is a change
PAGE = 1000
_WHERE = {Source.CALL: "by a call", Source.CODE: "in code", Source.FILE: "in a file"}


@dataclass(slots=True)
class Synced:
    """What a sync did, by names of jobs. `passed` are new ones without a future fire; `problems` are refusals."""

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
    """Bring the store's jobs of this source and origin in line with those declared; return what changed.

    Jobs that are not declared any more are removed; not those of code, which other processes may declare, and none
    without `remove`. A name that a job of another source or origin has, or that is reserved for code, is a problem of
    that job alone.
    """
    syncing = _JobSync(store, client, environment, Synced())
    wanted = {(spec.owner, spec.name): spec for spec in specs}
    for spec in wanted.values():
        try:
            await syncing.put(spec)
        except UsageError as error:
            syncing.done.problems[spec.name] = str(error)
    if remove and source is not Source.CODE:
        for job in await all_jobs(store, client, JobFilter(source=source)):
            if job.spec.origin == origin and (job.spec.owner, job.spec.name) not in wanted:
                await syncing.remove(job)
    return syncing.done


async def all_jobs(store: Store, client: Client, wanted: JobFilter) -> list[JobRecord]:
    """Return all matching jobs, by name."""
    found: list[JobRecord] = []
    after = ("", "")
    while True:
        page = await client.repeated(partial(store.jobs, wanted, limit=PAGE, after=after))
        found += page
        if len(page) < PAGE:
            return found
        after = (page[-1].spec.name, page[-1].id)


async def store_time(store: Store, client: Client) -> int:
    """Return the store's time."""
    return (await client.repeated(lambda: store.due_jobs(limit=1))).now


def refuse_reserved(name: str, environment: JobEnvironment) -> None:
    """Raise BadSetting if this process declares a job of that name in code."""
    if name in environment.declared:
        raise BadSetting(f"the name {name!r} is reserved: a job of that name is declared in code; use another one")


def digest(spec: JobSpec) -> str:
    """Return a digest of a declaration."""
    return hashlib.blake2b(msgspec.json.encode(spec), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class _JobSync:
    store: Store
    client: Client
    environment: JobEnvironment
    done: Synced

    async def put(self, spec: JobSpec) -> None:
        """Add a job, or change the existing one if its declaration was another."""
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
                continue  # another process was first
            if done:
                return
        raise JobChanged(spec.name)

    async def remove(self, job: JobRecord) -> None:
        """Remove a job that is not declared any more."""
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
        """Tell whether the existing job has this declaration. Raises BadSetting if it belongs to another source."""
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
