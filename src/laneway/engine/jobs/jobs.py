"""Create and change jobs, as `app.jobs`: validate, then write with an optimistic version check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from laneway.core.common.checks import checked_name
from laneway.core.jobs.anchor import anchored
from laneway.core.jobs.fire_decision import Fired, Firing, by_hand, decide
from laneway.core.jobs.job import Job
from laneway.core.jobs.plan import awaits_end, created, next_of, patched, planned, switched
from laneway.core.jobs.record import JobRecord, Source
from laneway.core.records.run import Receipt, ReceiptOutcome, Why
from laneway.engine.client.admin import Opened
from laneway.engine.client.client import Client
from laneway.engine.common.ids import new_run_id
from laneway.engine.handlers.task import Registry
from laneway.engine.jobs.declared import CodeJobs
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.queries import JobQueries
from laneway.engine.jobs.specs import patch_of, spec_of
from laneway.engine.jobs.sync import TRIES, refuse_reserved, store_time
from laneway.errors import BadSetting, JobChanged
from laneway.ports.jobs import AddJob, EditJob, RemoveJob

NOT_DUE, OVERLAP = "not_due", "overlap"  # reasons on the receipt of a run by hand


class Jobs(JobQueries):
    """The jobs, as `app.jobs`.

    `refuse_new` raises when the scheduler takes no runs. `whose` limits them to one owner; None: all.
    """

    def __init__(
        self,
        opened: Opened,
        client: Client,
        registry: Registry,
        environment: JobEnvironment,
        *,
        limit: int,
        refuse_new: Callable[[], None],
        code: CodeJobs,
        whose: str | None = None,
    ) -> None:
        super().__init__(opened, client, environment, whose)
        self._registry, self._limit = registry, limit
        self._refuse_new, self._code = refuse_new, code

    def owned_by(self, user: str) -> Jobs:
        """Return the same object for one owner: it creates jobs for that owner, and reads and changes no others."""
        return Jobs(
            *(self._opened, self._client, self._registry, self._environment),
            limit=self._limit,
            refuse_new=self._refuse_new,
            code=self._code,
            whose=checked_name(user, "job's owner"),
        )

    # Creating and changing

    async def create(
        self,
        name: str,
        schedule: object,
        task: object,
        args: Mapping[str, Any] | None = None,
        *,
        check_task: bool = True,
        **options: Any,
    ) -> Job:
        """Create a job: `schedule` (an object, or a line such as "0 9 * * 1-5") starts `task` with these arguments.

        Options: `tz` (of a line), `lane`, `user`, `session`, `priority`, `owner`, `description`, `enabled`, `misfire`
        (skip, once, all), `max_staleness`, `overlap` (skip, queue, interrupt, allow), `delete_after_run`,
        `run_on_start`, `timeout`, `retry`, `breaker`, `backoff`, `backoff_cap`, `alert_after`, `enabled_when`.
        `check_task=False` accepts a task that only other processes know. Raises JobExists, UnknownTask, BadArguments or
        BadSetting; nothing is stored then.
        """
        if self._lookup.whose is not None and options.get("owner") is None:
            options["owner"] = self._lookup.whose
        self._check_owner(options)
        spec = spec_of(
            *(self._registry, name, schedule, task, args, options),
            check_task=check_task,
            conditions=self._environment.conditions if check_task else None,
            limit=self._limit,
        )
        refuse_reserved(spec.name, self._environment)
        store = await self._opened()
        now = await store_time(store, self._client)
        job = created(new_run_id(), anchored(spec, now), now, self._environment.zone(spec))
        await self._client.repeated(lambda: store.change_job(AddJob(job)))
        return Job.of(job)

    async def update(
        self, name: Job | str, /, *, of_owner: str | None = None, check_task: bool = True, **changes: Any
    ) -> Job:
        """Change the given values: `name`, `schedule`, `task`, `args` and the options of `create`.

        None removes an option. A schedule without a time zone keeps the job's zone, and an unchanged period its anchor;
        another schedule counts from now on. Everything is checked before anything is written. Without changes, the job
        is only planned anew by its owner's current time zone. Raises UnknownJob, JobExists, JobChanged, and the errors
        of `create`. The declaration in code or a file holds again when that is changed.
        """
        self._check_owner(changes)

        def make(job: JobRecord, now: int) -> JobRecord:
            if job.spec.source is not Source.CALL and not {"name", "owner"}.isdisjoint(changes):
                raise BadSetting(f"job {job.spec.name!r} is declared in {job.spec.source.value}; change its name there")
            spec = patch_of(
                *(self._registry, job.spec, changes),
                check_task=check_task,
                conditions=self._environment.conditions if check_task else None,
                limit=self._limit,
            )
            if spec.name != job.spec.name:
                refuse_reserved(spec.name, self._environment)
            zone = self._environment.zone_of(job, spec)
            after = _replanned(patched(job, anchored(spec, now, job.spec), now, zone), now, zone)
            return switched(after, now, zone, on=spec.enabled) if "enabled" in changes else after

        return await self._changed(name, of_owner, make)

    async def enable(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Enable a job: it fires from now on, and its failures are reset. Raises BadSetting if it has no fire left."""
        return await self._switch(name, owner, on=True)

    async def disable(self, name: Job | str, *, owner: str | None = None) -> Job:
        """Disable a job: it does not fire until it is enabled; its runs go on."""
        return await self._switch(name, owner, on=False)

    async def remove(self, name: Job | str, *, owner: str | None = None) -> None:
        """Delete a job and the records of its fires; its runs stay, and go on. Raises UnknownJob.

        A job that is declared in code cannot be removed while a worker declares it. One that is declared in a file
        comes back when the file is read again.
        """
        store = await self._opened()
        [job] = await self._lookup.seen(store, [await self._lookup.find(store, name, owner)])
        if job.source is Source.CODE and not job.orphaned:
            raise BadSetting(f"job {job.name!r} is declared in code; take it out there, or disable it")
        await self._client.repeated(lambda: store.change_job(RemoveJob(job.id)))

    async def run(self, name: Job | str, *, force: bool = True, owner: str | None = None) -> Receipt:
        """Fire a job now, whatever its schedule says, even if it is disabled; its next fire stays the same.

        With `force=False` only if it is due: else the receipt says skipped, `not_due`. The job's overlap rule applies:
        skipped, `overlap`.
        """
        self._refuse_new()
        store = await self._opened()
        job = await self._lookup.find(store, name, owner)
        for _ in range(TRIES):
            now = await store_time(store, self._client)
            firing = by_hand(job, new_run_id(), now) if force else await self._due(job, now)
            if firing is None:
                return Receipt(ReceiptOutcome.SKIPPED, new_run_id(), NOT_DUE)
            [fired] = await self._client.repeated(partial(store.fire, [firing]))
            if fired.won:
                return _receipt(firing, fired)
            job = await self._lookup.again(store, job)
            if firing.runs and job.state.last_run == firing.runs[-1].id:
                # The answer to an earlier try was lost, or another process was first: the job was fired all the same.
                return Receipt(ReceiptOutcome.ACCEPTED, firing.runs[-1].id)
        raise JobChanged(job.spec.name)

    def declare(
        self, name: str, schedule: object, task: object, args: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        """Declare a job in code, as `schedule=` on a task does, before the worker starts. Raises as `create`.

        Only processes that declare it fire it. An operator may enable, disable and change it.
        """
        if self._lookup.whose is not None:
            raise BadSetting("what code declares is for everybody; give the job its owner: app.jobs.declare(owner=...)")
        self._code.declare(name, schedule, task, args, options)

    async def _changed(self, name: Job | str, owner: str | None, make: Callable[[JobRecord, int], JobRecord]) -> Job:
        store = await self._opened()
        job = await self._lookup.find(store, name, owner)
        for _ in range(TRIES):
            after = make(job, await store_time(store, self._client))
            after = msgspec.structs.replace(after, call=new_run_id())
            kept = await self._client.repeated(partial(store.change_job, EditJob(after)))
            if kept is not None:
                [seen] = await self._lookup.seen(store, [kept])
                return seen
            job = await self._lookup.again(store, job)
        raise JobChanged(job.spec.name)

    async def _switch(self, name: Job | str, owner: str | None, *, on: bool) -> Job:
        return await self._changed(
            name, owner, lambda job, now: switched(job, now, self._environment.zone_of(job), on=on)
        )

    async def _due(self, job: JobRecord, now: int) -> Firing | None:
        spec = job.spec
        if job.state.fire_at is None or job.state.fire_at > now:
            return None
        if spec.enabled_when is not None and spec.enabled_when not in self._environment.conditions:
            raise BadSetting(f"job {spec.name!r} has a condition that only other processes know; use force=True")
        return decide(job, now, self._environment.zone_of(job), await self._environment.verdict(spec))

    def _check_owner(self, options: Mapping[str, Any]) -> None:
        """Refuse to give an owner's job to another owner, or to let it run as another user."""
        whose = self._lookup.whose
        for option in ("owner", "user"):
            if whose is not None and options.get(option, whose) not in (whose, *((None,) if option == "user" else ())):
                raise BadSetting(f"{option} is {options[option]!r}; here jobs are those of {whose!r} alone")


def _replanned(job: JobRecord, now: int, zone: str) -> JobRecord:
    """Return the job planned anew if its new owner is in another time zone."""
    next_at, rule = job.state.next_at, job.spec.rule
    if next_at is None or zone == job.state.zone or awaits_end(rule) or next_of(rule, next_at - 1, zone) == next_at:
        return job
    return planned(job, now, zone)


def _receipt(firing: Firing, fired: Fired) -> Receipt:
    if not firing.runs:
        reason = firing.records[-1].reason if firing.records else NOT_DUE
        return Receipt(ReceiptOutcome.SKIPPED, new_run_id(), reason)
    run, receipt = firing.runs[-1], fired.receipts[-1]
    if receipt is None:
        return Receipt(ReceiptOutcome.ACCEPTED, run.id)  # an earlier try of this call made it
    if receipt.reason in (Why.SESSION_BUSY, Why.SESSION_FULL):
        return Receipt(ReceiptOutcome.SKIPPED, run.id, OVERLAP)
    return receipt
