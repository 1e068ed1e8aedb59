"""What there is to see of jobs: what became of their fires, previews, a calendar. Looking moves nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from laneway import At, BadSetting, Between, Cron, DailyAt, Every, LanewayError, Scheduler, UnknownJob
from laneway.core.common.instants import micros
from laneway.core.jobs.fires import output_of
from laneway.core.jobs.record import OUTPUT_LIMIT, FireKind, JobRecord, JobSpec, JobState
from laneway.core.records.states import RunState
from laneway.ports.jobs import AddJob
from laneway.ports.upkeep import OldRuns
from laneway.testing import FakeClock
from tests.support.scheduler_jobs import START, fire_due, with_tasks

DOC = {"doc": "42"}


async def test_a_fire_tells_what_its_run_came_to(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("good", Every(60), "summarize", DOC)
    await jobs_app.jobs.create("bad", Every(60), "fail")
    await clock.advance(60)
    await fire_due(jobs_app)
    [pending] = await jobs_app.jobs.runs("good")
    await jobs_app.drain()

    [good], [bad] = [await jobs_app.jobs.runs(name) for name in ("good", "bad")]

    assert (pending.state, pending.started_at, pending.output) == (RunState.PENDING, None, None)
    assert (good.kind, good.reason, good.count, good.number) == (FireKind.FIRED, None, 1, 1)
    assert good.at == good.first_at == good.last_at == START + timedelta(minutes=1)
    assert (good.state, good.output, good.error) == (RunState.SUCCEEDED, '"summary of 42"', None)
    assert good.started_at is not None
    assert good.ended_at is not None
    assert (bad.state, bad.output, bad.error) == (RunState.FAILED, None, "it is broken")


async def test_fires_come_newest_first_and_a_page_at_a_time(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("often", Every(60), "cleanup")
    for _ in range(5):
        await clock.advance(60)
        await fire_due(jobs_app)
        await jobs_app.drain()

    first = await jobs_app.jobs.runs("often", limit=2)
    rest = await jobs_app.jobs.runs("often", before=first[-1].number)

    assert [fire.number for fire in (*first, *rest)] == [5, 4, 3, 2, 1]


async def test_skipped_and_missed_fires_are_told_as_stretches(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("often", Every(60), "cleanup")
    for _ in range(3):
        await clock.advance(60)
        await fire_due(jobs_app)  # nobody executes the first
    await clock.advance(timedelta(hours=3))
    await fire_due(jobs_app)

    skipped, fired = (await jobs_app.jobs.runs("often"))[-2:]
    job = await jobs_app.jobs.get("often")

    assert (fired.kind, skipped.kind, skipped.reason, skipped.count) == ("fired", "skipped", "overlap", 2)
    assert (skipped.first_at, skipped.last_at) == (START + timedelta(minutes=2), START + timedelta(minutes=3))
    assert job.missed > 100
    assert (await jobs_app.jobs.runs("often"))[0].run_id is None


async def test_a_fire_whose_run_is_gone_is_still_told(clock: FakeClock) -> None:
    async with with_tasks(Scheduler("memory://", clock=clock, retention=timedelta(minutes=1))) as app:
        await app.jobs.create("often", Every(60), "cleanup")
        receipt = await app.jobs.run("often")
        await app.drain()
        store = await app.open()
        await clock.advance(3600)
        await store.prune(OldRuns({RunState.SUCCEEDED: 1}))

        [fire] = await app.jobs.runs("often")

        assert (fire.run_id, fire.kind, fire.state, fire.output) == (receipt.run_id, "fired", None, None)


async def test_a_long_output_is_cut_with_a_mark(clock: FakeClock) -> None:
    app = Scheduler("memory://", clock=clock)

    @app.task
    def talk(length: int) -> str:
        return "ä" * length

    async with app:
        await app.jobs.create("talk", "@daily", talk, {"length": 20_000})
        receipt = await app.jobs.run("talk")
        await app.drain()

        [fire] = await app.jobs.runs("talk")

        assert fire.output is not None
        assert fire.output.endswith("ä... (cut at 16 KiB of 40 KiB)")
        assert len(fire.output.partition("...")[0].encode()) in (OUTPUT_LIMIT, OUTPUT_LIMIT - 1)
        assert len(await app.result(receipt)) == 20_000  # the run has all of it


def test_an_output_that_just_fits_is_whole() -> None:
    fitting = "x" * (OUTPUT_LIMIT - 2)

    assert output_of(fitting) == f'"{fitting}"'
    assert output_of(fitting + "x").endswith("(cut at 16 KiB of 17 KiB)")


async def test_a_preview_shows_instant_wall_and_what_is_strange(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("nightly", DailyAt(2, 30, tz="Europe/Berlin"), "cleanup")
    await clock.advance(timedelta(days=86))

    fires = await jobs_app.jobs.preview("nightly", 3)

    assert [(f"{at:%d %H:%M}", f"{local:%d %H:%M %Z}") for at, local, _ in fires] == [
        ("28 01:30", "28 02:30 CET"),
        ("29 01:00", "29 03:00 CEST"),
        ("30 00:30", "30 02:30 CEST"),
    ]
    [note] = [note for _, _, note in fires if note]
    assert (note.kind, "02:30 does not exist on this day" in note.text) == ("gap", True)


@pytest.mark.parametrize("schedule", [Cron("0 9 * * *"), "0 9 * * *", "daily 09:00", "@daily"])
async def test_a_schedule_can_be_previewed_without_a_job(jobs_app: Scheduler, schedule: Any) -> None:
    assert len(await jobs_app.jobs.preview(schedule)) == 10


async def test_a_preview_goes_by_the_schedulers_zone_and_the_owners(clock: FakeClock) -> None:
    zones = {"ann": "Asia/Tokyo"}
    async with with_tasks(Scheduler("memory://", clock=clock, tz="Europe/Berlin", owner_zone=zones.get)) as app:
        await app.jobs.create("anns", DailyAt(9), "cleanup", owner="ann")

        [anns], [plain] = await app.jobs.preview("anns", 1), await app.jobs.preview(DailyAt(9), 1)

        assert (f"{anns.local:%H:%M %Z}", f"{plain.local:%H:%M %Z}") == ("09:00 JST", "09:00 CET")


async def test_a_preview_of_a_disabled_job_shows_when_it_would_fire(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", DailyAt(9), "cleanup", enabled=False)

    assert len(await jobs_app.jobs.preview("digest", 3)) == 3


async def test_a_preview_of_a_one_shot_has_one_fire(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("once", At(START + timedelta(hours=1)), "cleanup")

    assert [fire.at for fire in await jobs_app.jobs.preview("once")] == [START + timedelta(hours=1)]


@pytest.mark.parametrize(
    ("what", "n", "message"),
    [
        ("nothing", 3, "no job 'nothing'"),
        ("every 0s", 3, "more than 0"),
        ("@daily", 0, "n is 0"),
        ("@daily", 1001, "1000"),
    ],
)
async def test_a_preview_of_what_is_not_there_is_refused(jobs_app: Scheduler, what: str, n: int, message: str) -> None:
    with pytest.raises(LanewayError) as refused:
        await jobs_app.jobs.preview(what, n)

    assert message in str(refused.value)
    assert isinstance(refused.value, (UnknownJob, BadSetting))


async def test_the_calendar_shows_the_next_fires_of_all_jobs_in_order(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("hourly", Every(3600), "cleanup")
    await jobs_app.jobs.create("often", Between(Every(1200), "00:00", "01:00"), "cleanup")
    await jobs_app.jobs.create("daily", DailyAt(9), "cleanup")
    await jobs_app.jobs.create("off", Every(60), "cleanup", enabled=False)

    calendar = await jobs_app.jobs.upcoming(5)

    assert [(fire.job.name, f"{fire.at:%H:%M}") for fire in calendar] == [
        ("often", "00:20"),
        ("often", "00:40"),
        ("hourly", "01:00"),
        ("hourly", "02:00"),
        ("hourly", "03:00"),
    ]
    assert [fire.job.name for fire in await jobs_app.jobs.upcoming(100)].count("daily") >= 1


async def test_the_calendar_shows_a_job_that_is_overdue_once_with_its_time(
    jobs_app: Scheduler, clock: FakeClock
) -> None:
    await jobs_app.jobs.create("often", Every(60), "cleanup")
    await clock.advance(600)

    assert [f"{fire.at:%H:%M}" for fire in await jobs_app.jobs.upcoming(3)] == ["00:01", "00:11", "00:12"]


async def test_looking_moves_no_job(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("often", Every(60), "cleanup")
    await jobs_app.jobs.create("daily", DailyAt(9), "cleanup")
    await clock.advance(timedelta(days=2))
    store = await jobs_app.open()
    before = await store.due_jobs()

    jobs = await jobs_app.jobs.list()
    for job in jobs:
        assert await jobs_app.jobs.get(job.name) == job
        await jobs_app.jobs.preview(job.name)
        await jobs_app.jobs.runs(job.name)
    await jobs_app.jobs.upcoming()

    assert await store.due_jobs() == before
    assert await jobs_app.jobs.list() == jobs


@pytest.mark.parametrize("before", [0, -1, "x", True, 2**70])
async def test_a_number_to_go_on_from_that_is_none_is_refused(jobs_app: Scheduler, before: Any) -> None:
    await jobs_app.jobs.create("often", "@daily", "cleanup")
    await jobs_app.jobs.run("often")

    with pytest.raises(BadSetting, match="before is"):
        await jobs_app.jobs.runs("often", before=before)


async def test_what_is_skipped_while_a_job_is_held_back_is_not_shown(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("bad", Every(60), "fail", backoff=150)
    await clock.advance(60)
    await fire_due(jobs_app)
    await jobs_app.drain()

    coming = [fire.at for fire in await jobs_app.jobs.upcoming(3)]
    preview = [fire.at for fire in await jobs_app.jobs.preview("bad", 2)]

    job = await jobs_app.jobs.get("bad")
    assert job.held_until is not None
    assert coming == [job.held_until, *preview] == sorted(coming)
    assert preview == [START + timedelta(minutes=4), START + timedelta(minutes=5)]


@pytest.mark.checklist("W2-6")
async def test_a_stored_rule_that_cannot_be_read_here_hides_no_other_job(jobs_app: Scheduler) -> None:
    store, now = await jobs_app.open(), micros(START)
    await jobs_app.jobs.create("good", Every(60), "cleanup")
    for name, schedule in (
        ("gone", '{"v":1,"kind":"daily","hour":9,"tz":"Mars/Olympus"}'),
        ("newer", '{"v":99,"kind":"lunar"}'),
    ):
        spec = JobSpec(name=name, task="cleanup", schedule=schedule)
        state = JobState(next_at=now + 1, fire_at=now + 1)
        await store.change_job(AddJob(JobRecord(id=name, spec=spec, state=state, created_at=now, changed_at=now)))

    jobs = await jobs_app.jobs.list()

    assert [(job.name, job.reason) for job in jobs] == [("gone", "unreadable"), ("good", None), ("newer", "unreadable")]
    assert "unknown time zone 'Mars/Olympus'" in jobs[0].schedule.describe()
    assert {fire.job.name for fire in await jobs_app.jobs.upcoming()} == {"good"}
    assert (await jobs_app.jobs.disable("newer")).reason == "disabled"
    mended = await jobs_app.jobs.update("gone", tz="Asia/Tokyo")
    assert (mended.schedule, mended.reason) == (DailyAt(9, tz="Asia/Tokyo"), None)
    await jobs_app.jobs.remove("newer")
