"""Jobs that files declare: synced into the store, and left to operators and breakers where they have spoken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from laneway import Every, Scheduler, StoreUnavailable
from laneway.core.jobs.record import JobSpec, Source
from laneway.core.records.breakers import Breaker
from laneway.engine.client.client import Client
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.sync import Synced, sync
from laneway.testing import FakeClock
from tests.support.jobs import spec_of
from tests.support.scheduler_jobs import MINUTELY, START, fire_due, in_file, with_tasks
from tests.support.watched_store import WatchedStore


async def read(
    app: Scheduler, clock: FakeClock, *specs: JobSpec, origin: str = "laneway.toml", code: Iterable[JobSpec] = ()
) -> Synced:
    """Bring the jobs of a file into the store, in a process whose code declares those of `code`."""
    store, environment = await app.open(), JobEnvironment()
    environment.declared.update((spec.name, spec) for spec in code)
    return await sync(store, Client(store, clock), specs, Source.FILE, origin, environment)


@pytest.mark.checklist("W2-6")
async def test_one_job_that_cannot_be_synced_keeps_no_other_from_it(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("taken", "@daily", "cleanup")

    done = await read(jobs_app, clock, *(in_file(jobs_app, name, "@daily") for name in ("a", "taken", "z")))

    assert (done.added, list(done.problems)) == (["a", "z"], ["taken"])


@pytest.mark.checklist("W2-7")
async def test_what_its_breaker_has_disabled_stays_so_though_the_file_says_enabled(
    jobs_app: Scheduler, clock: FakeClock
) -> None:
    breaker: dict[str, Any] = {"breaker": Breaker(2, disable=True), "enabled": True}
    await read(jobs_app, clock, in_file(jobs_app, "broken", Every(60), "fail", **breaker))
    for _ in range(2):
        await clock.advance(60)
        await fire_due(jobs_app)
        await jobs_app.drain()
    assert (await jobs_app.jobs.get("broken")).reason == "breaker"

    await read(jobs_app, clock, in_file(jobs_app, "broken", Every(60), "fail", **breaker))
    same = await jobs_app.jobs.get("broken")
    await read(jobs_app, clock, in_file(jobs_app, "broken", Every(120), "fail", **breaker))
    edited = await jobs_app.jobs.get("broken")
    enabled = await jobs_app.jobs.enable("broken")

    for job in (same, edited):
        assert (job.enabled, job.reason, job.next_fire_at) == (False, "breaker", None)
    assert edited.schedule == Every(120, anchor=START + timedelta(minutes=2))
    assert (enabled.enabled, enabled.failures) == (True, 0)


@pytest.mark.checklist("W2-7")
async def test_what_an_operator_has_disabled_stays_so_though_the_file_says_enabled(
    jobs_app: Scheduler, clock: FakeClock
) -> None:
    await read(jobs_app, clock, in_file(jobs_app, "a", "@daily", enabled=True))
    await jobs_app.jobs.disable("a")

    await read(jobs_app, clock, in_file(jobs_app, "a", "@hourly", enabled=True))

    assert (await jobs_app.jobs.get("a")).reason == "disabled"


@pytest.mark.checklist("W4-11")
async def test_a_sync_that_is_cut_off_loses_no_job(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    with_tasks(lossy)
    names = ("a", "b", "c")
    await read(lossy, clock, *(in_file(lossy, name, "@daily") for name in names))
    watched.breaks("change_job", *(StoreUnavailable("the disk is full") for _ in range(4)))

    cut_off = asyncio.create_task(read(lossy, clock, *(in_file(lossy, name, "@hourly") for name in names)))
    while not cut_off.done():
        await clock.advance(1)

    with pytest.raises(StoreUnavailable):
        await cut_off
    assert [(job.name, job.enabled) for job in await lossy.jobs.list()] == [(name, True) for name in names]
    assert (await read(lossy, clock, *(in_file(lossy, name, "@hourly") for name in names))).changed == ["a", "b", "c"]


async def test_a_files_jobs_are_added_changed_and_removed(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("mine", "@daily", "cleanup")
    await read(jobs_app, clock, in_file(jobs_app, "theirs", "@daily", origin="other.toml"), origin="other.toml")

    first = await read(jobs_app, clock, in_file(jobs_app, "a", "@daily"), in_file(jobs_app, "b", "@daily"))
    second = await read(jobs_app, clock, in_file(jobs_app, "b", "@hourly"), in_file(jobs_app, "c", "@daily"))

    assert (first.added, first.changed, first.removed) == (["a", "b"], [], [])
    assert (second.added, second.changed, second.removed) == (["c"], ["b"], ["a"])
    assert [job.name for job in await jobs_app.jobs.list()] == ["b", "c", "mine", "theirs"]


async def test_a_file_gets_no_name_that_code_or_a_call_has(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("called", "@daily", "cleanup")
    coded, called = (in_file(jobs_app, name, "@daily") for name in ("coded", "called"))

    done = await read(jobs_app, clock, coded, called, code=[spec_of(MINUTELY, name="coded", task="cleanup")])

    assert "reserved" in done.problems["coded"]
    assert "made before (by a call)" in done.problems["called"]
    assert (done.added, done.changed) == ([], [])
