"""The jobs that code declares, by `schedule=` on a task or `app.jobs.declare`, and how they reach the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from laneway.core.jobs.record import JobSpec, Source
from laneway.engine.client.client import Client
from laneway.engine.handlers.task import Registry
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.specs import spec_of
from laneway.engine.jobs.sync import Synced, sync
from laneway.errors import BadSetting
from laneway.ports.store import Store

log = logging.getLogger("laneway.jobs")


class CodeJobs:
    """Collects declared jobs in the process's environment; `is_working` tells whether its worker is up."""

    def __init__(
        self,
        client: Client,
        registry: Registry,
        environment: JobEnvironment,
        limit: int,
        is_working: Callable[[], bool],
    ) -> None:
        self._client, self._registry, self._environment = client, registry, environment
        self._limit, self._is_working = limit, is_working
        self._stored: dict[str, JobSpec] = {}

    def declare(
        self, name: str, schedule: object, task: object, args: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> None:
        """Declare a job. Raises UnknownTask, BadArguments or BadSetting."""
        if self._is_working():
            raise BadSetting("this scheduler is working already; declare its jobs before it starts")
        spec = spec_of(
            *(self._registry, name, schedule, task, args, options),
            source=Source.CODE,
            conditions=self._environment.conditions,
            limit=self._limit,
        )
        if spec.name in self._environment.declared:
            raise BadSetting(f"job {spec.name!r} is declared twice; give one of them another name")
        self._environment.declared[spec.name] = spec

    async def apply(self, store: Store, *, again: bool = False) -> Synced:
        """Bring what was declared since the last call, or everything, into the store. What it refuses is logged."""
        known = {} if again else self._stored
        if len(known) == len(self._environment.declared):
            return Synced()
        news = {name: spec for name, spec in self._environment.declared.items() if name not in known}
        done = await sync(store, self._client, news.values(), Source.CODE, "", self._environment)
        for problem in done.problems.values():
            log.error("%s", problem)
        self._stored = known | news
        return done
