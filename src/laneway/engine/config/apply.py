"""Applies `laneway.toml`, its lanes and jobs, to the store: everything that it declares, or nothing.

**Whose jobs.** A job remembers the file that declares it, its *origin*: the file's path, or the name that the file
gives itself (`origin = "shop"`, for files that move with every release, or exist on several machines). A file changes
and removes only jobs of its own origin. A file that gives itself a name takes over the jobs of its path.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from laneway.core.common.checks import checked_name
from laneway.core.jobs.plan import next_of
from laneway.core.jobs.record import JobRecord, JobSpec, Source
from laneway.core.records.policy import Lane
from laneway.engine.client.client import Client
from laneway.engine.common.ids import new_run_id
from laneway.engine.config import job_tables
from laneway.engine.config.lane_declarations import declared, redeclared
from laneway.engine.handlers.task import Registry
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.specs import spec_of
from laneway.engine.jobs.sync import TRIES, Synced, all_jobs, refuse_reserved, store_time, sync
from laneway.errors import BadSetting
from laneway.ports.jobs import EditJob, JobFilter
from laneway.ports.store import Store

log = logging.getLogger("laneway.file")

SECTIONS = ("lanes", "jobs", "origin")


class FileSync:
    """Applies a file to a store; `lanes` are those that code declares, `client` repeats calls without an answer."""

    def __init__(
        self,
        file: Path,
        opened: Callable[[], Awaitable[Store]],
        client: Client,
        registry: Registry,
        environment: JobEnvironment,
        *,
        lanes: Sequence[Lane] = (),
        args_limit: int,
    ) -> None:
        self._file, self._opened, self._client = file, opened, client
        self._registry, self._environment, self._args_limit = registry, environment, args_limit
        self._code_lanes: Sequence[Lane] = lanes
        self._lanes: Sequence[Lane] = ()  # as they were declared last

    async def apply(self, found: Mapping[str, Any] | None, whole: bool) -> None:
        """Bring the store in line with the file; see `watcher.Apply`."""
        store = await self._opened()
        if not found:
            await self._report_empty(store, found)
            return
        for section in found:
            if section not in SECTIONS:
                raise BadSetting.unknown(f"part of {self._file}:", section, SECTIONS)
        origin = self._origin(found)
        lanes = declared(self._code_lanes, os.environ, self._file, found)
        specs = job_tables.specs(found, self._file, await self._make(store, origin))
        await self._check(store, specs, origin)
        await self._rename(store, origin)
        await self._client.repeated(lambda: store.declare_lanes(redeclared(self._lanes, lanes)))
        self._lanes = lanes
        done = await sync(store, self._client, specs, Source.FILE, origin, self._environment, remove=whole)
        self._log(done)

    def _origin(self, found: Mapping[str, Any]) -> str:
        return checked_name(found["origin"], "origin") if "origin" in found else self._path

    @property
    def _path(self) -> str:
        return str(self._file.absolute())

    async def _report_empty(self, store: Store, found: Mapping[str, Any] | None) -> None:
        """Report a file that is gone or empty if the store has jobs of it: they are not removed by a mistake."""
        jobs = [job for job in await self._filed(store) if job.spec.origin == self._path]
        if jobs:
            what = "is gone" if found is None else "is empty"
            names = ", ".join(job.spec.name for job in jobs[:5]) + ", ..." * (len(jobs) > 5)
            raise BadSetting(f"{self._file} {what}, and jobs of it are there ({names}); to remove them write [jobs]")

    async def _make(self, store: Store, origin: str) -> job_tables.Make:
        """Return a function that checks an entry. A task that only other workers know is accepted."""
        elsewhere = {task.name for task in await self._client.repeated(store.tasks) if task.workers}

        def make(
            name: str, schedule: object, task: str, args: Mapping[str, Any], options: Mapping[str, Any]
        ) -> JobSpec:
            refuse_reserved(name, self._environment)
            return spec_of(
                self._registry,
                name,
                schedule,
                task,
                args,
                options,
                source=Source.FILE,
                origin=origin,
                check_task=task not in elsewhere,
                conditions=self._environment.conditions if task in self._registry.names else None,
                limit=self._args_limit,
            )

        return make

    async def _check(self, store: Store, specs: Sequence[JobSpec], origin: str) -> None:
        """Raise what the store would refuse, before anything changes."""
        now = await store_time(store, self._client)
        for spec in specs:
            # By name, because others may have a hundred thousand jobs in the store.
            named = await all_jobs(store, self._client, JobFilter(named=spec.name, owner=spec.owner))
            others = [job.spec for job in named if (job.spec.owner, job.spec.name) == (spec.owner, spec.name)]
            for why in filter(None, (self._clash(other, spec, origin, now) for other in others)):
                raise BadSetting(f"{self._file}: [jobs.{spec.name}]: {why}")

    def _clash(self, other: JobSpec, spec: JobSpec, origin: str, now: int) -> str | None:
        if other.source is not Source.FILE:
            made = "declared in code" if other.source is Source.CODE else "made by a call"
            return f"there is a job of that name, {made}; remove that one, or use another name"
        if other.origin not in (origin, self._path):
            same = 'let both files say the same origin = "..." at their top'
            return f"the job of that name is declared in {other.origin}; remove it, or {same}"
        if other.rule != spec.rule and next_of(spec.rule, now, self._environment.zone(spec)) is None:
            return f"it would never fire again: {spec.rule.describe()} has passed"
        return None

    async def _rename(self, store: Store, origin: str) -> None:
        """Give the jobs of the file's path the name that the file gives itself."""
        if self._path == origin:
            return
        # A job that fires meanwhile has another version, and is found again.
        for _ in range(TRIES):
            moved = [job for job in await self._filed(store) if job.spec.origin == self._path]
            if not moved:
                break
            for job in moved:
                spec = msgspec.structs.replace(job.spec, origin=origin)
                changed = msgspec.structs.replace(job, spec=spec, call=new_run_id())
                await self._client.repeated(partial(store.change_job, EditJob(changed)))

    async def _filed(self, store: Store) -> list[JobRecord]:
        return await all_jobs(store, self._client, JobFilter(source=Source.FILE))

    def _log(self, done: Synced) -> None:
        for what, names in (("added", done.added), ("changed", done.changed), ("removed", done.removed)):
            if names:
                log.info("%s: %s %s", self._file, what, ", ".join(names))
        if done.problems:
            name, why = next(iter(done.problems.items()))
            raise BadSetting(f"{self._file}: [jobs.{name}]: {why}")
