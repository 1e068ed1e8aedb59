"""Jobs that files declare: synced into the store, and left to operators and breakers where they have spoken."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from laneway import Every, Scheduler, StoreUnavailable
from laneway.core.jobs.record import JobSpec, Source
from laneway.core.records.breakers import Breaker
from laneway.engine.jobs.specs import spec_of
from laneway.engine.jobs.sync import Synced, sync
from laneway.testing import FakeClock
from tests.engine.desking import BEGIN, fire_due, in_file, with_tasks
from tests.engine.support import WatchedStore


async def read(app: Scheduler, *specs: JobSpec) -> Synced:
    return await sync(await app.open(), app._client, specs, Source.FILE, "laneway.toml", app._environment)


@pytest.mark.checklist("W2-6")
async def test_one_job_that_cannot_be_synced_keeps_no_other_from_it(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("taken", "@daily", "cleanup")

    done = await read(jobs_app, *(in_file(jobs_app, name, "@daily") for name in ("a", "taken", "z")))

    assert (done.added, list(done.problems)) == (["a", "z"], ["taken"])


@pytest.mark.checklist("W2-7")
async def test_what_its_breaker_has_disabled_stays_so_though_the_file_says_enabled(
    jobs_app: Scheduler, clock: FakeClock
) -> None:
    breaker = {"breaker": Breaker(2, disable=True), "enabled": True}
    await read(jobs_app, in_file(jobs_app, "broken", Every(60), "fail", **breaker))
    for _ in range(2):
        await clock.advance(60)
        await fire_due(jobs_app)
        await jobs_app.drain()
    assert (await jobs_app.jobs.get("broken")).reason == "breaker"

    await read(jobs_app, in_file(jobs_app, "broken", Every(60), "fail", **breaker))
    same = await jobs_app.jobs.get("broken")
    await read(jobs_app, in_file(jobs_app, "broken", Every(120), "fail", **breaker))
    edited = await jobs_app.jobs.get("broken")
    enabled = await jobs_app.jobs.enable("broken")

    for job in (same, edited):
        assert (job.enabled, job.reason, job.next_fire_at) == (False, "breaker", None)
    assert edited.schedule == Every(120, anchor=BEGIN + timedelta(minutes=2))
    assert (enabled.enabled, enabled.failures) == (True, 0)


@pytest.mark.checklist("W2-7")
async def test_what_an_operator_has_disabled_stays_so_though_the_file_says_enabled(jobs_app: Scheduler) -> None:
    await read(jobs_app, in_file(jobs_app, "a", "@daily", enabled=True))
    await jobs_app.jobs.disable("a")

    await read(jobs_app, in_file(jobs_app, "a", "@hourly", enabled=True))

    assert (await jobs_app.jobs.get("a")).reason == "disabled"


@pytest.mark.checklist("W4-11")
async def test_a_sync_that_is_cut_off_loses_no_job(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    with_tasks(lossy)
    names = ("a", "b", "c")
    await read(lossy, *(in_file(lossy, name, "@daily") for name in names))
    watched.breaks("change_job", *(StoreUnavailable("the disk is full") for _ in range(4)))

    cut_off = asyncio.create_task(read(lossy, *(in_file(lossy, name, "@hourly") for name in names)))
    while not cut_off.done():
        await clock.advance(1)

    with pytest.raises(StoreUnavailable):
        await cut_off
    assert [(job.name, job.enabled) for job in await lossy.jobs.list()] == [(name, True) for name in names]
    assert (await read(lossy, *(in_file(lossy, name, "@hourly") for name in names))).changed == ["a", "b", "c"]


async def synced(app: Scheduler, origin: str, **jobs: dict[str, Any]) -> Any:
    store = await app.open()
    specs = [
        spec_of(app.tasks.registry, name, job["schedule"], "cleanup", None, {}, source=Source.FILE, origin=origin)
        for name, job in jobs.items()
    ]
    return await sync(store, app._client, specs, Source.FILE, origin, app._environment)


async def test_a_files_jobs_are_added_changed_and_removed(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("mine", "@daily", "cleanup")
    await synced(jobs_app, "other.toml", theirs={"schedule": "@daily"})

    first = await synced(jobs_app, "laneway.toml", a={"schedule": "@daily"}, b={"schedule": "@daily"})
    second = await synced(jobs_app, "laneway.toml", b={"schedule": "@hourly"}, c={"schedule": "@daily"})

    assert (first.added, first.changed, first.removed) == (["a", "b"], [], [])
    assert (second.added, second.changed, second.removed) == (["c"], ["b"], ["a"])
    assert [job.name for job in await jobs_app.jobs.list()] == ["b", "c", "mine", "theirs"]


async def test_a_file_gets_no_name_that_code_or_a_call_has(jobs_app: Scheduler) -> None:
    jobs_app.jobs.declare("coded", "@daily", "cleanup")
    await jobs_app.jobs.create("called", "@daily", "cleanup")

    done = await synced(jobs_app, "f", coded={"schedule": "@daily"}, called={"schedule": "@daily"})

    assert "reserved" in done.problems["coded"]
    assert "made before (by a call)" in done.problems["called"]
    assert (done.added, done.changed) == ([], [])
