"""What went wrong with jobs in the systems before this one, as far as the desk is concerned."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from laneway import BadSetting, Cron, DailyAt, Every, Scheduler, StoreUnavailable
from laneway.core.common.instants import micros
from laneway.core.jobs.record import JobRecord, JobSpec, JobState, Source
from laneway.core.records.breakers import Breaker
from laneway.core.records.run import Run
from laneway.engine.jobs.specs import spec_of
from laneway.engine.jobs.sync import Synced, sync
from laneway.ports.jobs import AddJob
from laneway.testing import FakeClock
from tests.engine.desking import BEGIN, fire_due, with_tasks
from tests.engine.support import WatchedStore

BEGIN_AT = micros(BEGIN)


def in_file(app: Scheduler, name: str, schedule: Any, task: str = "cleanup", **options: Any) -> JobSpec:
    return spec_of(app.tasks.registry, name, schedule, task, None, options, source=Source.FILE, origin="laneway.toml")


async def read(app: Scheduler, *specs: JobSpec) -> Synced:
    return await sync(await app.open(), app._client, specs, Source.FILE, "laneway.toml", app._knowing)


async def test_w2_6_one_invalid_rule_keeps_no_other_job_from_firing(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("good", Every(60), "cleanup")

    with pytest.raises(BadSetting, match="61"):
        await jobs_app.jobs.create("bad", "61 9 * * *", "cleanup")
    with pytest.raises(BadSetting, match="61"):
        in_file(jobs_app, "bad", "61 9 * * *")

    await clock.advance(60)
    assert [job.name for job in await jobs_app.jobs.list()] == ["good"]
    assert await fire_due(jobs_app) == 1


async def test_w2_6_one_job_that_cannot_be_synced_keeps_no_other_from_it(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("taken", "@daily", "cleanup")

    done = await read(jobs_app, *(in_file(jobs_app, name, "@daily") for name in ("a", "taken", "z")))

    assert (done.added, list(done.problems)) == (["a", "z"], ["taken"])


async def test_w2_7_what_its_breaker_has_disabled_stays_so_though_the_file_says_enabled(
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


async def test_w2_7_what_an_operator_has_disabled_stays_so_though_the_file_says_enabled(jobs_app: Scheduler) -> None:
    await read(jobs_app, in_file(jobs_app, "a", "@daily", enabled=True))
    await jobs_app.jobs.disable("a")

    await read(jobs_app, in_file(jobs_app, "a", "@hourly", enabled=True))

    assert (await jobs_app.jobs.get("a")).reason == "disabled"


@pytest.mark.parametrize("rule", ["0 25 * * *", "0 9 32 * *", "0 9 * * 8", "*/0 * * * *", "0 9 * *", "0 9 31 2 *", ""])
async def test_w4_10_a_rule_that_never_fires_is_refused_and_not_stored(jobs_app: Scheduler, rule: str) -> None:
    await jobs_app.jobs.create("good", "@daily", "cleanup")
    before = await jobs_app.jobs.list()

    with pytest.raises(BadSetting):
        await jobs_app.jobs.create("bad", rule, "cleanup")
    with pytest.raises(BadSetting):
        await jobs_app.jobs.update("good", schedule=rule)

    assert await jobs_app.jobs.list() == before


async def test_w4_11_jobs_are_there_after_a_restart_as_they_were(url: str, clock: FakeClock) -> None:
    if url == "memory://":
        pytest.skip("it forgets everything, and says so")
    async with with_tasks(Scheduler(url, clock=clock)) as app:
        await app.jobs.create("digest", Cron("0 9 * * 1-5", tz="Asia/Tokyo"), "summarize", {"doc": "1"}, owner="ann")
        await app.jobs.run("digest")
        before, fires = await app.jobs.list(), await app.jobs.runs("digest")

    async with with_tasks(Scheduler(url, clock=clock)) as app:
        assert (await app.jobs.list(), await app.jobs.runs("digest")) == (before, fires)


async def test_w4_11_a_sync_that_is_cut_off_loses_no_job(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
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


async def test_w4_13_a_job_can_be_tried_once_and_never_again(clock: FakeClock) -> None:
    app = Scheduler("memory://", clock=clock)

    @app.task(retry=5)
    def fail() -> None:
        raise ValueError("it is broken")

    async with app:
        await app.jobs.create("once", "@daily", fail, retry=1)
        receipt = await app.jobs.run("once")
        await app.drain()

        run: Run = await app.get(receipt)

        assert (run.state, run.attempt) == ("failed", 1)
        with pytest.raises(BadSetting, match="retry is 0; it counts attempts: 1 is the first and no other"):
            await app.jobs.update("once", retry=0)
        # None is what leaves it to the task, and nothing else does.
        assert (await app.jobs.update("once", retry=None)).spec.retry is None
        assert (await app.jobs.update("once", backoff=0, max_staleness=0)).spec.max_staleness == 0


async def test_w4_14_a_schedule_without_a_zone_keeps_the_jobs(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", "0 9 * * *", "cleanup", tz="Asia/Tokyo")

    changed = await jobs_app.jobs.update("digest", schedule="0 10 * * *")

    assert changed.schedule == Cron("0 10 * * *", tz="Asia/Tokyo")
    assert changed.next_fire_at == BEGIN + timedelta(hours=1)


@pytest.mark.parametrize(
    "changes", [{"name": "new"}, {"priority": 3}, {"args": {}}, {"schedule": "every 1h"}, {"tz": "Asia/Tokyo"}], ids=str
)
async def test_w4_14_no_patch_restarts_a_period(jobs_app: Scheduler, clock: FakeClock, changes: dict[str, Any]) -> None:
    made = await jobs_app.jobs.create("often", Every(3600), "cleanup")
    await clock.advance(3540)

    changed = await jobs_app.jobs.update("often", **changes)

    assert changed.next_fire_at == made.next_fire_at == BEGIN + timedelta(hours=1)


async def test_w4_15_periods_of_equal_length_keep_their_offsets_through_an_outage(
    jobs_app: Scheduler, clock: FakeClock
) -> None:
    for name in ("a", "b", "c"):
        await jobs_app.jobs.create(name, Every(3600), "cleanup")
        await clock.advance(600)

    await clock.advance(timedelta(hours=7))
    await fire_due(jobs_app)

    nexts = [job.next_fire_at for job in await jobs_app.jobs.list()]
    assert [f"{at:%M}" for at in nexts if at] == ["00", "10", "20"]


@pytest.mark.parametrize(
    ("zone", "begin", "rule", "walls"),
    [
        ("Europe/Berlin", 86, DailyAt(2, 30), ["28 02:30", "29 03:00", "30 02:30"]),
        ("Europe/Berlin", 296, DailyAt(2, 30), ["24 02:30", "25 02:30", "26 02:30"]),
        ("America/New_York", 65, DailyAt(2, 30), ["07 02:30", "08 03:00", "09 02:30"]),
        ("Australia/Lord_Howe", 275, DailyAt(2, 15), ["04 02:30", "05 02:15", "06 02:15"]),
    ],
    ids=str,
)
async def test_w4_19_a_daily_job_fires_once_a_day_when_the_clock_is_changed(
    clock: FakeClock, zone: str, begin: int, rule: DailyAt, walls: list[str]
) -> None:
    async with with_tasks(Scheduler("memory://", clock=clock, tz=zone)) as app:
        await clock.advance(timedelta(days=begin))
        await app.jobs.create("nightly", rule, "cleanup", overlap="allow")

        previewed = [fire.local for fire in await app.jobs.preview("nightly", 3)]
        for _ in range(24 * 3 * 4):
            await clock.advance(900)
            await fire_due(app)

        fires = [rule.zone(zone).local(fire.first_at) for fire in reversed(await app.jobs.runs("nightly"))]
        assert [f"{local:%d %H:%M}" for local in fires] == walls
        assert previewed == fires


async def test_w2_6_a_stored_rule_that_cannot_be_read_here_hides_no_other_job(jobs_app: Scheduler) -> None:
    store = await jobs_app.open()
    await jobs_app.jobs.create("good", Every(60), "cleanup")
    for name, schedule in (
        ("gone", '{"v":1,"kind":"daily","hour":9,"tz":"Mars/Olympus"}'),
        ("newer", '{"v":99,"kind":"lunar"}'),
    ):
        spec = JobSpec(name=name, task="cleanup", schedule=schedule)
        state = JobState(next_at=BEGIN_AT + 1, fire_at=BEGIN_AT + 1)
        await store.change_job(
            AddJob(JobRecord(id=name, spec=spec, state=state, created_at=BEGIN_AT, changed_at=BEGIN_AT))
        )

    jobs = await jobs_app.jobs.list()

    assert [(job.name, job.reason) for job in jobs] == [("gone", "unreadable"), ("good", None), ("newer", "unreadable")]
    assert "unknown time zone 'Mars/Olympus'" in jobs[0].schedule.describe()
    assert {fire.job.name for fire in await jobs_app.jobs.upcoming()} == {"good"}
    assert (await jobs_app.jobs.disable("newer")).reason == "disabled"
    mended = await jobs_app.jobs.update("gone", tz="Asia/Tokyo")
    assert (mended.schedule, mended.reason) == (DailyAt(9, tz="Asia/Tokyo"), None)
    await jobs_app.jobs.remove("newer")
