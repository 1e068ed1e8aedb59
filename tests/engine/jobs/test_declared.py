"""Jobs that code declares: brought into the store, changed with the code, left to operators where they have spoken."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from laneway import At, BadSetting, DailyAt, Every, JobExists, Scheduler
from laneway.core.jobs.record import Source
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.scheduler_jobs import START, at, fire_due, with_tasks


def declaring(store: Store, clock: FakeClock, *jobs: tuple[str, Any, str], **options: Any) -> Scheduler:
    """Return a process whose code declares these jobs."""
    app = with_tasks(Scheduler(store=store, clock=clock))
    for name, schedule, task in jobs:
        app.jobs.declare(name, schedule, task, **options)
    return app


async def test_a_schedule_on_a_task_declares_a_job_of_its_name(clock: FakeClock) -> None:
    app = Scheduler("memory://", clock=clock)

    @app.task(schedule=DailyAt(3), job={"misfire": "all", "args": {"days": 7}})
    def cleanup(days: int) -> int:
        """Throw away what is old."""
        return days

    async with app:
        job = await app.jobs.get("cleanup")
    assert (job.task, job.args, job.source, at(job)) == ("cleanup", {"days": 7}, "code", "Thu 01 03:00")
    assert (job.spec.misfire, job.spec.description) == ("all", "Throw away what is old.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": DailyAt(3)}, "cleanup needs 'days'; a scheduled task gets its arguments by job={\"args\""),
        ({"schedule": DailyAt(3), "job": {"args": {"days": 1}, "misfre": "all"}}, "did you mean 'misfire'"),
        ({"schedule": "evry 5m", "job": {"args": {"days": 1}}}, "did you mean 'every'"),
        ({"job": {"args": {"days": 1}}}, "goes with a schedule"),
        ({"schedule": DailyAt(3), "job": [1]}, "job is a dict"),
        ({"schedule": 5, "job": {"args": {"days": 1}}}, "a schedule is one such as"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_where_it_stands(options: dict[str, Any], message: str) -> None:
    app = Scheduler("memory://", lanes=None)

    def cleanup(days: int) -> int:
        return days

    with pytest.raises(BadSetting) as refused:
        app.task(**options)(cleanup)

    assert message in str(refused.value)
    assert app.tasks.names == frozenset()


def test_a_job_is_declared_once() -> None:
    app = with_tasks(Scheduler("memory://", lanes=None))
    app.jobs.declare("digest", "@daily", "cleanup")

    with pytest.raises(BadSetting, match="declared twice"):
        app.jobs.declare("digest", "@hourly", "cleanup")


async def test_nothing_is_declared_while_the_worker_works(clock: FakeClock) -> None:
    app = with_tasks(Scheduler("memory://", clock=clock))
    async with app, app.running():
        with pytest.raises(BadSetting, match="working already"):
            app.jobs.declare("digest", "@daily", "cleanup")


async def test_what_is_declared_after_the_store_was_opened_is_not_forgotten(clock: FakeClock) -> None:
    app = with_tasks(Scheduler("memory://", clock=clock))
    async with app:
        app.jobs.declare("digest", "@daily", "cleanup")
        assert [job.name for job in await app.jobs.list()] == ["digest"]


async def test_a_declaration_that_says_the_same_changes_nothing(memory: Store, clock: FakeClock) -> None:
    async with declaring(memory, clock, ("often", Every(3600), "cleanup")) as app:
        first = await app.jobs.get("often")
    await clock.advance(600)

    async with declaring(memory, clock, ("often", Every(3600), "cleanup")) as app:
        assert await app.jobs.get("often") == first


async def test_another_declaration_changes_the_job_and_makes_nothing_up(memory: Store, clock: FakeClock) -> None:
    async with declaring(memory, clock, ("digest", DailyAt(9), "cleanup")) as app:
        await app.jobs.run("digest")
        first = await app.jobs.get("digest")
    await clock.advance(timedelta(days=2, hours=10))

    async with declaring(memory, clock, ("digest", DailyAt(8), "cleanup"), priority=5) as app:
        job = await app.jobs.get("digest")

        assert (job.id, job.last_run_id, job.fired) == (first.id, first.last_run_id, 1)
        assert (job.schedule, at(job), job.spec.priority) == (DailyAt(8), "Sun 04 08:00", 5)
        assert await fire_due(app) == 0


async def test_what_an_operator_said_survives_the_code(memory: Store, clock: FakeClock) -> None:
    async with declaring(memory, clock, ("a", "@daily", "cleanup"), ("b", "@daily", "cleanup")) as app:
        await app.jobs.disable("a")
        await app.jobs.update("b", timeout=60)

    async with declaring(memory, clock, ("a", "@hourly", "cleanup"), ("b", "@daily", "cleanup")) as app:
        a, b = await app.jobs.list()

    assert (a.enabled, a.reason, a.next_fire_at) == (False, "disabled", None)
    assert b.spec.timeout == 60_000_000


async def test_what_code_declares_no_more_is_kept_and_says_that_it_is_orphaned(memory: Store, clock: FakeClock) -> None:
    before = declaring(memory, clock, ("old", "@daily", "cleanup"), ("new", "@daily", "cleanup"))
    async with before, before.running():
        assert [(job.name, job.orphaned) for job in await before.jobs.list()] == [("new", False), ("old", False)]
        with pytest.raises(BadSetting, match="declared in code; take it out there, or disable it"):
            await before.jobs.remove("old")

    after = declaring(memory, clock, ("new", "@daily", "cleanup"))
    async with after, after.running():
        assert [(job.name, job.orphaned) for job in await after.jobs.list()] == [("new", False), ("old", True)]
        await after.jobs.remove("old")
        assert [job.name for job in await after.jobs.list()] == ["new"]


async def test_names_of_declared_jobs_are_reserved(memory: Store, clock: FakeClock) -> None:
    async with declaring(memory, clock, ("digest", "@daily", "cleanup")) as app:
        for owner in (None, "ann"):
            with pytest.raises(BadSetting, match="'digest' is reserved"):
                await app.jobs.create("digest", "@daily", "cleanup", owner=owner)
        await app.jobs.create("other", "@daily", "cleanup")
        with pytest.raises(BadSetting, match="'digest' is reserved"):
            await app.jobs.update("other", name="digest")
        with pytest.raises(JobExists):
            await with_tasks(Scheduler(store=memory, clock=clock)).jobs.create("digest", "@daily", "cleanup")


async def test_a_declared_name_that_is_taken_is_reported_and_not_overwritten(
    memory: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with with_tasks(Scheduler(store=memory, clock=clock)) as app:
        made = await app.jobs.create("digest", "@daily", "cleanup")

    with caplog.at_level(logging.ERROR, "laneway.jobs"):
        jobs = (("digest", "@hourly", "cleanup"), ("fine", "@daily", "cleanup"))
        async with declaring(memory, clock, *jobs) as app:
            assert await app.jobs.get("digest") == made
            assert (await app.jobs.get("fine")).source is Source.CODE

    assert "job 'digest' is declared in code, and one of that name was made before" in caplog.text


async def test_many_processes_that_start_at_once_make_each_job_once(memory: Store, clock: FakeClock) -> None:
    jobs = [(f"job-{nth}", Every(60 + nth), "cleanup") for nth in range(20)]
    apps = [declaring(memory, clock, *jobs) for _ in range(5)]

    await asyncio.gather(*(app.open() for app in apps))

    assert len(await apps[0].jobs.list()) == 20


async def test_an_instant_of_the_past_in_code_is_no_error(memory: Store, clock: FakeClock) -> None:
    async with declaring(memory, clock, ("once", At(START - timedelta(days=1)), "cleanup")) as app:
        assert await app.jobs.list() == []


async def test_a_condition_is_registered_by_its_name(clock: FakeClock) -> None:
    app = Scheduler("memory://", clock=clock)
    answers = [False, True]

    @app.condition
    def is_open() -> bool:
        return answers.pop(0)

    @app.task(schedule=Every(60), job={"enabled_when": is_open})
    def cleanup() -> None: ...

    with pytest.raises(BadSetting, match="registered twice"):
        app.condition(is_open)
    async with app:
        await clock.advance(60)
        gated = await app.jobs.run("cleanup", force=False)
        assert (gated.outcome, gated.reason) == ("skipped", "gated")
        assert (await app.jobs.get("cleanup")).reason == "gated"
        await clock.advance(60)
        assert (await app.jobs.run("cleanup", force=False)).accepted
        assert (await app.jobs.get("cleanup")).reason is None


# What a file says goes the same way (`engine/config/job_tables.py` reads it).


def test_a_declared_job_that_would_come_back_is_not_deleted_after_its_run() -> None:
    app = with_tasks(Scheduler("memory://", lanes=None))

    with pytest.raises(BadSetting, match="would come back"):
        app.jobs.declare("often", Every(60), "cleanup", delete_after_run=True)
    app.jobs.declare("once", At(START + timedelta(days=1)), "cleanup", delete_after_run=True)
