"""Conditions of jobs, and the time zones of their owners: asked when a job is due, and never in the way of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from laneway import DailyAt, Every, Scheduler
from laneway.core.common.instants import micros
from laneway.core.jobs.record import FireKind, Verdict
from laneway.engine.jobs import environment as environments
from laneway.engine.jobs import firer
from laneway.engine.jobs.environment import JobEnvironment
from laneway.engine.jobs.firer import Firer
from laneway.ports.jobs import DueJobs
from laneway.testing import FakeClock
from tests.support.jobs import standing
from tests.support.scheduler_jobs import MINUTE, MINUTELY, START, Started, add_job, counted, recorded
from tests.support.waits import as_time_passes, eventually, passes, until
from tests.support.watched_store import WatchedStore


def yes() -> bool:
    return True


async def test_a_condition_is_asked_at_each_fire_and_what_it_forbids_is_skipped(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    opened, store = [False], await worker.open()

    @worker.condition
    def is_open() -> bool:
        return opened[0]

    await add_job(worker, "job", MINUTELY, enabled_when="is_open")

    async with worker.running():
        await passes(clock, 180, step=10)
        await until(lambda: not started.notes)
        [skipped] = await recorded(worker, "job", 1)
        while (await counted(worker, "job"))["skipped"] < 3:
            await passes(clock, 0.01)
        gated = (await standing(store, "job")).state
        opened[0] = True
        await passes(clock, 60, step=10)
        await until(lambda: len(started) == 1)
        free = (await standing(store, "job")).state

    assert (skipped.kind, skipped.reason) == (FireKind.SKIPPED, "gated")
    assert (gated.verdict, gated.skipped, gated.halted) == (Verdict.GATED, 3, None)
    assert (free.verdict, free.fired) == (None, 1)


async def test_a_condition_that_raises_forbids_and_is_told_from_one_that_says_no(
    worker: Scheduler, clock: FakeClock
) -> None:
    @worker.condition
    def broken() -> int:
        return 1 // 0

    await add_job(worker, "job", MINUTELY, enabled_when="broken")

    async with worker.running():
        await clock.advance(60)
        [skipped] = await recorded(worker, "job", 1)

    assert (skipped.kind, skipped.reason) == (FireKind.SKIPPED, "gating_error")
    assert (await standing(await worker.open(), "job")).state.verdict is Verdict.GATING_ERROR


async def test_a_condition_that_hangs_makes_only_its_own_jobs_late(
    worker: Scheduler, clock: FakeClock, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "PATIENCE", 0.3)

    @worker.condition
    async def hangs() -> bool:
        return await asyncio.Event().wait()

    @worker.condition
    def quick() -> bool:
        return True

    await add_job(worker, "a", MINUTELY, enabled_when="hangs")
    await add_job(worker, "b", MINUTELY)
    await add_job(worker, "c", MINUTELY, enabled_when="quick")

    async with worker.running():
        await clock.advance(60)
        await until(lambda: len(started) == 2)  # long before it is given up
        early = await counted(worker, "a")
        [skipped] = await recorded(worker, "a", 1)

    assert early == {}
    assert {at for _, _, at in started.notes} == {START + MINUTE}
    assert skipped.reason == "gating_error"


async def test_a_condition_is_asked_once_for_all_jobs_that_are_due(
    watched: WatchedStore, clock: FakeClock, started: Started
) -> None:
    asked = []

    async def is_open() -> bool:
        asked.append(clock.monotonic())
        return True

    async with started.on(Scheduler(store=watched, clock=clock)) as app:
        app.condition(is_open)
        for nth in range(20):
            await add_job(app, f"job-{nth}", MINUTELY, enabled_when="is_open")
        async with app.running():
            await clock.advance(60)
            await until(lambda: len(started) == 20)

    assert asked == [60]
    assert watched.calls["fire"] == 1


async def test_a_process_that_does_not_know_a_condition_leaves_the_job_to_those_that_do(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", MINUTELY, enabled_when="elsewhere")

    async with worker.running():
        await passes(clock, 62)
        before = await counted(worker, "job")

        @worker.condition
        def elsewhere() -> bool:
            return True

        await passes(clock, 2)
        await until(lambda: len(started) == 1)

    assert (before, started.of("job")) == ({}, [START + MINUTE])


async def test_a_drain_asks_conditions_too(worker: Scheduler, clock: FakeClock, started: Started) -> None:
    worker.condition(yes)
    await add_job(worker, "job", MINUTELY, enabled_when="yes")
    await clock.advance(60)

    await worker.drain()

    assert started.of("job") == [START + MINUTE]


async def test_a_store_that_fails_while_a_condition_is_asked_is_asked_again(
    watched: WatchedStore, clock: FakeClock, started: Started
) -> None:
    async with started.on(Scheduler(store=watched, clock=clock)) as app:
        app.condition(yes)
        await add_job(app, "job", MINUTELY, enabled_when="yes")
        await clock.advance(60)
        watched.fail("fire", 2)

        await as_time_passes(clock, app.drain())

    assert started.of("job") == [START + MINUTE]


async def test_the_zone_of_an_owner_is_read_when_the_job_is_due(url: str, clock: FakeClock, started: Started) -> None:
    zones = {"ann": "UTC"}
    async with Scheduler(url, clock=clock, owner_zone=zones.get, tz="America/New_York") as app:
        started.on(app)
        await add_job(app, "anns", DailyAt(6), owner="ann")
        await add_job(app, "bobs", DailyAt(6), owner="bob", zone="America/New_York")

        zones["ann"] = "Europe/London"  # the same in winter
        await clock.advance(timedelta(hours=6))
        await app.drain()
        zones["ann"] = "America/Sao_Paulo"  # three hours later
        await clock.advance(timedelta(hours=5))
        await app.drain()
        before = list(started.notes)
        await clock.advance(timedelta(hours=19))
        await app.drain()  # 6:00 in London, where she does not live any more
        moved = (await standing(await app.open(), "anns")).state
        await clock.advance(timedelta(hours=3))
        await app.drain()

    times = [START + timedelta(hours=6), START + timedelta(hours=11), START + timedelta(hours=33)]
    assert before == [("anns", times[0], times[0]), ("bobs", times[1], times[1])]
    assert (moved.zone, moved.next_at) == ("America/Sao_Paulo", micros(times[2]))
    assert started.notes == [*before, ("anns", times[2], times[2])]


class Undecided:
    """What says neither yes nor no, as an array of numbers does."""

    def __bool__(self) -> bool:
        raise ValueError("which of them?")


async def leave() -> bool:
    raise SystemExit(3)


async def give_up() -> bool:
    raise asyncio.CancelledError


@pytest.mark.parametrize("condition", [Undecided, leave, give_up])
async def test_a_condition_that_says_nothing_forbids_on_record_and_ends_no_worker(
    worker: Scheduler, clock: FakeClock, started: Started, condition: Callable[[], Any]
) -> None:
    worker.condition(condition)
    await add_job(worker, "gated", MINUTELY, enabled_when=condition.__name__)
    await add_job(worker, "plain", MINUTELY)

    async with worker.running():
        await passes(clock, 60, step=10)
        [skipped] = await recorded(worker, "gated", 1)
        await until(lambda: len(started) == 1)

    assert (skipped.kind, skipped.reason) == (FireKind.SKIPPED, "gating_error")
    assert started.of("plain") == [START + MINUTE]


async def test_jobs_of_one_condition_are_found_once_however_many_pages_they_fill(
    worker: Scheduler, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firer, "PAGE", 2)
    asked, pages, read, store = list[int](), list[int](), asyncio.Event(), await worker.open()

    async def closed() -> bool:
        asked.append(1)
        await read.wait()
        return False

    environment = JobEnvironment()
    environment.conditions["closed"] = closed
    for number in range(8):
        await add_job(worker, f"job-{number}", MINUTELY, enabled_when="closed")
    await clock.advance(60)
    due_jobs = store.due_jobs

    async def counted_page(**page: Any) -> DueJobs:
        found = await due_jobs(**page)
        pages.append(len(found.jobs))
        if not found.jobs:
            read.set()
        return found

    monkeypatch.setattr(store, "due_jobs", counted_page)

    won = await Firer(store, clock, environment).fire_all()

    assert (won, len(asked)) == (8, 1)
    assert pages == [2, 2, 2, 2, 0, 0]  # and nothing in the pass after they were fired


async def test_what_a_condition_said_before_a_job_was_due_is_not_said_of_that_job(
    worker: Scheduler, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firer, "PAGE", 1)
    store = await worker.open()
    for name, anchor in (("early", START), ("late", START + timedelta(seconds=61))):
        await add_job(worker, name, Every(60, anchor=anchor), enabled_when="open")
    opened = asyncio.Event()
    environment = JobEnvironment()
    environment.conditions["open"] = opened.wait
    await clock.advance(60)
    pages = store.due_jobs

    async def later(**page: Any) -> DueJobs:
        found = await pages(**page)
        await clock.advance(2)  # between two pages of one pass
        return found

    monkeypatch.setattr(store, "due_jobs", later)
    await Firer(store, clock, environment).fire()
    opened.set()

    await eventually(lambda: standing(store, "early"), lambda early: early.state.fired == 1)
    assert (await standing(store, "late")).state.fired == 0
