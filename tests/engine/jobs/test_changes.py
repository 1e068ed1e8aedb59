"""Changing a job: what is given and nothing else, checked before anything is written, whoever else is at it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from laneway import (
    AnyOf,
    At,
    BadSetting,
    Cron,
    DailyAt,
    Every,
    Job,
    JobChanged,
    JobExists,
    LanewayError,
    Scheduler,
    StoreUnavailable,
    UnknownJob,
)
from laneway.core.jobs.record import JobRecord
from laneway.core.records.run import Run
from laneway.core.records.states import RunState
from laneway.ports.jobs import EditJob, JobChange
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.support.scheduler_jobs import START, at, fire_due, with_tasks
from tests.support.watched_store import WatchedStore

DOC = {"doc": "42"}


async def test_a_patch_changes_what_it_gives_and_keeps_the_rest(jobs_app: Scheduler, clock: FakeClock) -> None:
    made = await jobs_app.jobs.create("digest", DailyAt(9), "summarize", DOC, priority=3, misfire="all")
    await clock.advance(60)

    changed = await jobs_app.jobs.update("digest", args={"doc": "7"}, overlap="queue")

    assert (changed.args, changed.spec.overlap) == ({"doc": "7"}, "queue")
    assert (changed.spec.priority, changed.spec.misfire, changed.schedule) == (3, "all", DailyAt(9))
    assert (changed.next_fire_at, changed.created_at) == (made.next_fire_at, START)
    assert changed.changed_at == START + timedelta(minutes=1)
    assert await jobs_app.jobs.get("digest") == changed


async def test_a_job_can_be_renamed_and_keeps_its_plan(jobs_app: Scheduler, clock: FakeClock) -> None:
    made = await jobs_app.jobs.create("digest", Every(3600), "cleanup")
    await clock.advance(600)

    renamed = await jobs_app.jobs.update("digest", name="news")

    assert (renamed.id, renamed.next_fire_at, renamed.schedule) == (made.id, made.next_fire_at, made.schedule)
    with pytest.raises(UnknownJob):
        await jobs_app.jobs.get("digest")


async def test_another_schedule_counts_from_now_on(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("digest", DailyAt(9), "cleanup")
    await clock.advance(timedelta(days=2, hours=10))  # two fires were missed, and nobody has fired them yet

    changed = await jobs_app.jobs.update("digest", schedule=DailyAt(8))

    assert at(changed) == "Sun 04 08:00"
    assert await fire_due(jobs_app) == 0


async def test_a_period_keeps_its_anchor_until_it_is_another_one(jobs_app: Scheduler, clock: FakeClock) -> None:
    made = await jobs_app.jobs.create("often", Every(3600), "cleanup")
    await clock.advance(600)

    same = await jobs_app.jobs.update("often", schedule="every 1h", priority=1)
    other = await jobs_app.jobs.update("often", schedule="every 2h")

    assert (same.schedule, same.next_fire_at) == (made.schedule, made.next_fire_at)
    assert other.schedule == Every(7200, anchor=START + timedelta(minutes=10))


async def test_a_period_inside_another_rule_is_anchored_too(jobs_app: Scheduler, clock: FakeClock) -> None:
    made = await jobs_app.jobs.create("often", AnyOf(Every(3600), DailyAt(9)), "cleanup")
    await clock.advance(600)

    changed = await jobs_app.jobs.update("often", schedule=AnyOf(Every(3600), DailyAt(10)))

    assert made.schedule == AnyOf(Every(3600, anchor=START), DailyAt(9))
    assert changed.schedule == AnyOf(Every(3600, anchor=START), DailyAt(10))


async def test_a_patch_may_switch_a_job_off_and_on(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", DailyAt(9), "cleanup")
    await jobs_app.jobs.disable("digest")

    on = await jobs_app.jobs.update("digest", enabled=True)
    off = await jobs_app.jobs.update("digest", enabled=False, priority=1)

    assert (on.enabled, at(on)) == (True, "Thu 01 09:00")
    assert (off.enabled, off.reason, at(off), off.spec.priority) == (False, "disabled", "never", 1)


async def test_a_one_shot_that_is_done_begins_again_with_another_instant(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("once", At(START + timedelta(hours=1)), "cleanup")
    await clock.advance(timedelta(hours=1))
    await fire_due(jobs_app)
    await jobs_app.drain()
    assert (await jobs_app.jobs.get("once")).reason == "done"

    again = await jobs_app.jobs.update("once", schedule=At(START + timedelta(hours=5)))

    assert (again.enabled, at(again)) == (True, "Thu 01 05:00")


async def test_another_owner_lives_in_another_zone(clock: FakeClock) -> None:
    zones = {"ann": "Asia/Tokyo", "bob": "Europe/Berlin"}
    async with with_tasks(Scheduler("memory://", clock=clock, owner_zone=zones.get)) as app:
        anns = await app.jobs.create("digest", "daily 18:00", "cleanup", owner="ann")

        bobs = await app.jobs.update("digest", owner="bob")

        assert (anns.zone, at(anns)) == ("Asia/Tokyo", "Thu 01 09:00")
        assert (bobs.zone, at(bobs)) == ("Europe/Berlin", "Thu 01 17:00")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "daily 25:00"}, "hour is 25"),
        ({"schedule": At(START - timedelta(days=1))}, "would never fire"),
        ({"schedule": "every 0s"}, "more than 0"),
        ({"tz": "Mars"}, "unknown time zone"),
        ({"task": "clenup"}, "did you mean 'cleanup'"),
        ({"task": "cleanup"}, "has no argument 'doc'"),
        ({"args": {}}, "needs 'doc'"),
        ({"name": "other"}, "there is a job 'other' already"),
        ({"name": ""}, "needs a name"),
        ({"priority": 3, "overlap": "both"}, "unknown overlap"),
        ({"prority": 3}, "did you mean 'priority'"),
        ({"enabled": "no"}, "True or False"),
    ],
    ids=str,
)
async def test_a_patch_that_cannot_be_changes_nothing(
    jobs_app: Scheduler, changes: dict[str, Any], message: str
) -> None:
    await jobs_app.jobs.create("other", "@daily", "cleanup")
    await jobs_app.jobs.create("digest", DailyAt(9), "summarize", DOC)
    before = await jobs_app.jobs.list()

    with pytest.raises(LanewayError) as refused:
        await jobs_app.jobs.update("digest", **changes)

    assert message in str(refused.value)
    assert await jobs_app.jobs.list() == before


async def test_a_job_that_is_changed_during_its_run_stays_so(jobs_app: Scheduler, clock: FakeClock) -> None:
    await jobs_app.jobs.create("a", Every(60), "cleanup")
    await jobs_app.jobs.create("b", Every(60), "cleanup")
    await jobs_app.jobs.create("c", Every(60), "cleanup")
    await clock.advance(60)
    await fire_due(jobs_app)

    await jobs_app.jobs.disable("a")
    await jobs_app.jobs.update("b", schedule=DailyAt(9))
    await jobs_app.jobs.remove("c")
    await jobs_app.drain()

    a, b = await jobs_app.jobs.list()
    assert (a.enabled, a.next_fire_at, a.last_state) == (False, None, RunState.SUCCEEDED)
    assert (b.schedule, at(b), b.last_state) == (DailyAt(9), "Thu 01 09:00", RunState.SUCCEEDED)


@asynccontextmanager
async def overtaken(clock: FakeClock) -> AsyncIterator[tuple[asyncio.Task[Job], Scheduler]]:
    """A change of a job that is held back just before it is written, and another scheduler; then it is let go."""
    memory: Store = MemoryStore(clock)
    watched = WatchedStore(memory)
    one, two = with_tasks(Scheduler(store=watched, clock=clock)), with_tasks(Scheduler(store=memory, clock=clock))
    async with one, two:
        await one.jobs.create("digest", "@daily", "cleanup")
        come = watched.hold_back("change_job")
        slow = asyncio.create_task(one.jobs.update("digest", priority=5))
        await come.wait()
        yield slow, two
        watched.let_go("change_job")
        await asyncio.wait([slow])


async def test_two_who_change_a_job_at_once_both_have_their_way(clock: FakeClock) -> None:
    async with overtaken(clock) as (slow, two):
        await two.jobs.update("digest", lane="slow")

    assert ((await slow).spec.priority, (await slow).spec.lane) == (5, "slow")


async def test_a_job_that_is_removed_while_it_is_changed_stays_removed(clock: FakeClock) -> None:
    async with overtaken(clock) as (slow, two):
        await two.jobs.remove("digest")

    with pytest.raises(UnknownJob):
        await slow
    assert await two.jobs.list() == []


class Contested(MemoryStore):
    """A store where somebody else is quicker, so often."""

    def __init__(self, clock: FakeClock, times: float = math.inf) -> None:
        super().__init__(clock)
        self._times = times

    async def change_job(self, change: JobChange) -> JobRecord | None:
        if isinstance(change, EditJob):
            self._times -= 1
        return None if self._times >= 0 and isinstance(change, EditJob) else await super().change_job(change)


async def test_a_job_that_fires_without_a_pause_can_be_disabled(clock: FakeClock) -> None:
    async with with_tasks(Scheduler(store=Contested(clock, times=100), clock=clock)) as app:
        await app.jobs.create("digest", Every(0.01), "cleanup")

        await app.jobs.disable("digest")

        assert not (await app.jobs.get("digest")).enabled


async def test_who_never_gets_a_turn_is_told(clock: FakeClock) -> None:
    async with with_tasks(Scheduler(store=Contested(clock), clock=clock)) as app:
        await app.jobs.create("digest", "@daily", "cleanup")

        with pytest.raises(JobChanged, match="is being changed by others"):
            await app.jobs.update("digest", priority=5)


@pytest.mark.parametrize("lost", ["create", "update", "run", "remove"])
async def test_a_call_whose_answer_is_lost_is_made_once(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock, lost: str
) -> None:
    with_tasks(lossy)
    verb = "fire" if lost == "run" else "change_job"

    def loses(call: str) -> None:
        if call == lost:
            watched.calls.clear()
            watched.breaks(verb, StoreUnavailable("no answer", maybe_done=True))

    async def use() -> None:
        loses("create")
        await lossy.jobs.create("digest", "@daily", "cleanup")
        loses("update")
        await lossy.jobs.update("digest", priority=5)
        loses("run")
        assert (await lossy.jobs.run("digest")).accepted
        assert len(await lossy.jobs.runs("digest")) == 1
        loses("remove")
        await lossy.jobs.remove("digest")

    using = asyncio.create_task(use())
    while not using.done():
        await clock.advance(1)
    await using
    left = {"create": 2, "update": 1}.get(lost, 0)  # other changes after it
    assert watched.calls[verb] == 2 + left


async def test_two_who_make_a_job_of_one_name_make_one(clock: FakeClock) -> None:
    memory: Store = MemoryStore(clock)
    apps = [with_tasks(Scheduler(store=memory, clock=clock)) for _ in range(5)]

    made = await asyncio.gather(
        *(app.jobs.create("digest", "@daily", "cleanup") for app in apps), return_exceptions=True
    )

    assert sum(isinstance(one, JobExists) for one in made) == 4
    assert len(await apps[0].jobs.list()) == 1


async def test_what_is_declared_keeps_its_name(clock: FakeClock) -> None:
    app = with_tasks(Scheduler("memory://", clock=clock))
    app.jobs.declare("digest", "@daily", "cleanup")
    async with app:
        with pytest.raises(BadSetting, match="declared in code"):
            await app.jobs.update("digest", name="other")


@pytest.mark.checklist("W4-13")
async def test_a_job_can_be_tried_once_and_never_again(clock: FakeClock) -> None:
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


@pytest.mark.checklist("W4-14")
async def test_a_schedule_without_a_zone_keeps_the_jobs(jobs_app: Scheduler) -> None:
    await jobs_app.jobs.create("digest", "0 9 * * *", "cleanup", tz="Asia/Tokyo")

    changed = await jobs_app.jobs.update("digest", schedule="0 10 * * *")

    assert changed.schedule == Cron("0 10 * * *", tz="Asia/Tokyo")
    assert changed.next_fire_at == START + timedelta(hours=1)


@pytest.mark.checklist("W4-14")
@pytest.mark.parametrize(
    "changes", [{"name": "new"}, {"priority": 3}, {"args": {}}, {"schedule": "every 1h"}, {"tz": "Asia/Tokyo"}], ids=str
)
async def test_no_patch_restarts_a_period(jobs_app: Scheduler, clock: FakeClock, changes: dict[str, Any]) -> None:
    made = await jobs_app.jobs.create("often", Every(3600), "cleanup")
    await clock.advance(3540)

    changed = await jobs_app.jobs.update("often", **changes)

    assert changed.next_fire_at == made.next_fire_at == START + timedelta(hours=1)
