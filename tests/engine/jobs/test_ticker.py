"""The ticker: a job fires once per nominal time, when that is, however many processes there are."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec
import pytest

from laneway import At, Cron, Every, Scheduler
from laneway.core.common.instants import micros
from laneway.core.jobs.plan import patched, switched
from laneway.core.jobs.record import Source
from laneway.core.records.states import RunState
from laneway.engine.jobs.firer import AT_ONCE
from laneway.ports.jobs import EditJob, RemoveJob
from laneway.ports.store import Store
from laneway.testing import FakeClock
from tests.support.jobs import spec_of, standing
from tests.support.scheduler_jobs import (
    MINUTE,
    MINUTELY,
    START,
    Started,
    add_job,
    add_unreadable_job,
    another,
    change_job,
    counted,
    fleet,
    planned_again,
    recorded,
)
from tests.support.waits import passes, soon, turns, until
from tests.support.watched_store import WatchedStore


async def test_a_job_fires_at_its_times_and_not_a_microsecond_later(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "tick", Every(7.25, anchor=START))

    async with worker.running():
        for nth in range(1, 6):
            await clock.advance(7.25)
            await until(lambda nth=nth: len(started) == nth)  # type: ignore[misc]

    expected = [START + timedelta(seconds=7.25) * nth for nth in range(1, 6)]
    assert started.notes == [("tick", at, at) for at in expected]


@pytest.mark.parametrize("size", [2, 5])
async def test_a_job_fires_once_per_time_whatever_the_number_of_processes(
    worker: Scheduler, url: str, clock: FakeClock, started: Started, size: int
) -> None:
    tenth = timedelta(milliseconds=100)  # all of it is shorter than a lease: none lapses because the machine is busy
    await add_job(worker, "one", Every(tenth, anchor=START), overlap="queue")
    await add_job(worker, "other", Every(2 * tenth, anchor=START), overlap="allow")

    async with fleet(worker, clock, started, size):
        for nth in range(1, 101):
            await clock.advance(tenth)
            await until(lambda nth=nth: len(started.of("one")) >= nth and len(started.of("other")) >= nth // 2)  # type: ignore[misc]

    assert started.of("one") == [START + nth * tenth for nth in range(1, 101)]
    assert started.of("other") == [START + nth * tenth for nth in range(2, 101, 2)]
    assert await counted(worker, "one") == {"fired": 100}


async def test_a_job_that_is_made_while_others_wait_fires_in_time(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "late", Every(3600, anchor=START))

    async with worker.running():
        await passes(clock, 5)
        await add_job(worker, "soon", At(START + timedelta(seconds=12.5)))
        await passes(clock, 7.5)
        await until(lambda: len(started) == 1)

    assert started.notes == [("soon", START + timedelta(seconds=12.5), START + timedelta(seconds=12.5))]


async def test_a_job_that_is_the_first_of_all_fires_in_time(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    async with worker.running():
        await passes(clock, 5)
        await add_job(worker, "soon", At(START + timedelta(seconds=12.5)))
        await passes(clock, 7.5)
        await until(lambda: len(started) == 1)

    assert started.of("soon") == [START + timedelta(seconds=12.5)]


async def test_a_change_takes_effect_at_once(worker: Scheduler, clock: FakeClock, started: Started) -> None:
    store = await worker.open()
    job = await add_job(worker, "job", Every(3600, anchor=START))

    async with worker.running():
        await passes(clock, 5)
        sooner = msgspec.structs.replace(job.spec, schedule=spec_of(Every(10, anchor=START)).schedule)
        await change_job(worker, "job", lambda job: patched(job, sooner, clock.now(), "UTC"))
        await passes(clock, 5)
        await until(lambda: len(started) == 1)
        await change_job(worker, "job", lambda job: switched(job, clock.now(), "UTC", on=False))
        await passes(clock, 25)
        await change_job(worker, "job", lambda job: switched(job, clock.now(), "UTC", on=True))
        await passes(clock, 5)
        await until(lambda: len(started) == 2)
        await store.change_job(RemoveJob("job"))
        await passes(clock, 30)

    assert started.of("job") == [START + timedelta(seconds=10), START + timedelta(seconds=40)]


async def test_a_worker_without_room_fires_in_time(app: Scheduler, clock: FakeClock) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task(name="work")
    async def work() -> None:
        begun.set()
        await release.wait()

    await add_job(app, "job", MINUTELY, overlap="queue")
    async with app.running(concurrency=1):
        await app.submit("work")
        await asyncio.wait_for(begun.wait(), 10)
        await add_job(app, "later", Every(30, anchor=START), overlap="allow")
        await clock.advance(30)
        fires = await recorded(app, "later", 1)
        await clock.advance(30)
        fires += await recorded(app, "later", 2) + await recorded(app, "job", 1)
        release.set()

    assert [record.at - record.first for record in fires] == [0, 0, 0, 0]


async def test_after_the_end_of_a_run_the_period_begins_anew(app: Scheduler, clock: FakeClock) -> None:
    begun, release = asyncio.Semaphore(0), asyncio.Semaphore(0)

    @app.task(name="work")
    async def work() -> None:
        begun.release()
        await release.acquire()

    await add_job(app, "job", Every(60, after="end"))
    planned = []
    async with app.running():
        for _ in (1, 2, 3):
            await clock.advance(60)
            await asyncio.wait_for(begun.acquire(), 10)
            await clock.advance(100)
            release.release()
            await planned_again(app, "job")
            planned.append((await standing(await app.open(), "job")).state.next_at)

    ends = [START + timedelta(seconds=160) * nth for nth in (1, 2, 3)]
    assert planned == [micros(end + MINUTE) for end in ends]
    assert await counted(app, "job") == {"fired": 3}


async def test_the_ticker_is_a_service_and_a_drain_has_none(worker: Scheduler) -> None:
    async with worker.running():
        services = {service.name: service.alive for service in worker.status().services}
        status = worker.status()

    assert services["ticker"] is True
    assert (status.bad_jobs, status.healthy) == ({}, True)


# What it leaves aside


async def test_a_job_that_code_declares_is_fired_only_where_that_code_is(
    worker: Scheduler, url: str, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "declared", MINUTELY, source=Source.CODE)
    await add_job(worker, "other", MINUTELY)
    declaring = started.on(Scheduler(store=await worker.open(), clock=clock))
    declaring.jobs.declare("declared", MINUTELY, "work")

    async with worker.running():
        await passes(clock, 61)
        await until(lambda: started.of("other") == [START + MINUTE])
        assert started.of("declared") == []
        async with declaring.running():
            await until(lambda: started.of("declared") == [START + MINUTE])


async def test_what_is_left_aside_neither_holds_up_others_nor_keeps_the_ticker_busy(
    watched: WatchedStore, clock: FakeClock, started: Started
) -> None:
    async with started.on(Scheduler(store=watched, clock=clock)) as app:
        await add_job(app, "orphan", MINUTELY, source=Source.CODE)
        async with app.running():
            await clock.advance(61)
            await add_job(app, "late", At(START + timedelta(seconds=100.5)))
            before = watched.calls["due_jobs"]
            for _ in range(60):
                await app.submit("work", {})  # each step says that a job is due
                await clock.advance(1)
            looks = watched.calls["due_jobs"] - before
            restarts = [service.restarts for service in app.status().services if service.name == "ticker"]

    assert ("late", START + timedelta(seconds=100.5), START + timedelta(seconds=100.5)) in started.notes
    assert looks <= 70
    assert restarts == [0]


async def test_a_job_that_cannot_be_decided_about_is_reported_and_the_others_fire(
    worker: Scheduler, clock: FakeClock, started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    store = await worker.open()
    await add_job(worker, "a", MINUTELY)
    bad = await add_unreadable_job(worker, "b")
    await add_job(worker, "c", MINUTELY)

    with caplog.at_level(logging.ERROR, "laneway.ticker"):
        async with worker.running():
            await passes(clock, 181)
            await until(lambda: len(started) == 6)
            said = dict(worker.status().bad_jobs)
            readable = msgspec.structs.replace(bad.spec, schedule=spec_of(MINUTELY).schedule)
            await store.change_job(EditJob(msgspec.structs.replace(bad, spec=readable)))
            await passes(clock, 2)
            await until(lambda: len(started.of("b")) == 1)
            healed = dict(worker.status().bad_jobs)

    assert started.of("a") == started.of("c") == [START + MINUTE * nth for nth in (1, 2, 3)]
    assert started.of("b") == [START + MINUTE * 3]
    assert list(said) == ["b"]
    assert "StoreTooNew" in said["b"]
    assert healed == {}
    assert len([record for record in caplog.records if record.name == "laneway.ticker"]) == 1


async def test_a_firing_that_the_store_cannot_write_does_not_keep_the_others_from_it(
    memory: Store, clock: FakeClock, started: Started
) -> None:
    class Choosy(WatchedStore):
        async def fire(self, firings):  # type: ignore[no-untyped-def]
            if any(firing.job_id == "b" for firing in firings):
                raise ValueError("cannot write b")
            return await super().fire(firings)

    async with started.on(Scheduler(store=Choosy(memory), clock=clock)) as app:
        for name in "abc":
            await add_job(app, name, MINUTELY)
        async with app.running():
            await passes(clock, 121)
            said = dict(app.status().bad_jobs)

    assert started.of("a") == started.of("c") == [START + MINUTE, START + MINUTE * 2]
    assert started.of("b") == []
    assert said == {"b": "ValueError: cannot write b"}


# Many at once


async def test_a_thousand_jobs_of_the_same_second_are_one_batch(watched: WatchedStore, clock: FakeClock) -> None:
    async with Scheduler(store=watched, clock=clock) as app:
        app.task(name="work")(asyncio.Event)  # nobody claims: it is about the fires
        for nth in range(1000):
            await add_job(app, f"job-{nth}", Every(5, anchor=START))
        await app.lanes.pause("main")
        async with app.running():
            await clock.advance(5)
            await until(lambda: watched.calls["fire"] == 1)
            await turns()
        depths = await app.depths()

    assert depths.runs["pending"] == 1000
    assert watched.calls["fire"] == 1


# Drain


async def test_handlers_that_hold_all_threads_of_the_loop_keep_no_job_from_firing(
    watched: WatchedStore, clock: FakeClock, started: Started
) -> None:
    release = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    held = asyncio.create_task(asyncio.to_thread(release.wait, 30))
    async with started.on(Scheduler(store=watched, clock=clock)) as app:
        for nth in range(AT_ONCE + 1):
            await add_job(app, f"job-{nth}", MINUTELY)
        async with app.running():
            await clock.advance(60)
            await until(lambda: len(started) > AT_ONCE)
    release.set()

    assert await held


async def test_a_drain_fires_what_is_due_and_does_not_wait_for_the_rest(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "due", MINUTELY)
    await add_job(worker, "later", Every(3600, anchor=START))
    await clock.advance(75)

    moves = await worker.drain()

    assert (dict(moves), started.of("due"), started.of("later")) == ({"succeed": 1}, [START + MINUTE], [])
    assert dict(await worker.drain()) == {}


async def test_a_drain_fires_once_more_what_became_due_meanwhile_and_comes_to_an_end(
    app: Scheduler, clock: FakeClock
) -> None:
    times = []

    @app.task(name="work")
    async def work() -> None:
        times.append(clock.monotonic())
        clock.step(60)  # as long as it takes, its job is due again when it has ended

    await add_job(app, "job", MINUTELY)
    await clock.advance(60)

    moves = await asyncio.wait_for(app.drain(), 30)

    assert dict(moves) == {"succeed": 2}


@pytest.mark.checklist("celery#2856", "apscheduler#655", "taskiq#244")
async def test_a_cron_rule_does_not_fire_twice_because_several_instances_know_it(
    worker: Scheduler, url: str, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", Cron("* * * * *"), overlap="allow")

    async with fleet(worker, clock, started, 3):
        for nth in range(1, 11):
            await clock.advance(60)
            await until(lambda nth=nth: len(started) == nth)  # type: ignore[misc]
            # A minute is longer than a lease: what has not ended by then is another worker's to execute again.
            for run in await worker.runs(task="work"):
                await soon(worker.wait(run.id))
        await clock.advance(5)

    assert started.of("job") == [START + MINUTE * nth for nth in range(1, 11)]
    assert len(await worker.runs(task="work")) == 10


@pytest.mark.checklist("W4-9")
async def test_an_instance_that_starts_while_another_executes_a_fire_repeats_nothing(
    url: str, clock: FakeClock
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await release.wait()

    # The lease is long, because time passes faster here than the renewer's thread can.
    first = Scheduler(url, clock=clock, lease=3600)
    second = await another(first, clock, lease=3600)
    async with first, second:
        first.task(name="work")(work)
        second.task(name="work")(work)
        await add_job(first, "job", MINUTELY)
        async with first.running():
            await clock.advance(60)
            await asyncio.wait_for(begun.wait(), 10)
            async with second.running():
                await passes(clock, 20)
                [run] = await first.runs(task="work")
                fires = await counted(first, "job")
                release.set()

    assert (run.state, run.fence, run.crashes, fires) == (RunState.RUNNING, 1, 0, {"fired": 1})


@pytest.mark.checklist("W1-5", "W4-16")
async def test_a_job_that_another_process_makes_or_changes_fires_at_its_time_and_not_a_minute_later(
    worker: Scheduler, url: str, clock: FakeClock, started: Started
) -> None:
    other = await another(worker, clock)

    async with worker.running():
        await passes(clock, 3)
        job = await add_job(other, "job", At(START + timedelta(seconds=30)))
        await passes(clock, 5)
        sooner = msgspec.structs.replace(job.spec, schedule=spec_of(At(START + timedelta(seconds=10))).schedule)
        await change_job(other, "job", lambda job: patched(job, sooner, clock.now(), "UTC"))
        await passes(clock, 2.5, step=0.5)
        await until(lambda: len(started) == 1)
    await other.aclose()

    assert started.of("job") == [START + timedelta(seconds=10)]


@pytest.mark.checklist("W4-16")
async def test_what_is_not_due_is_not_looked_at(watched: WatchedStore, clock: FakeClock, started: Started) -> None:
    async with started.on(Scheduler(store=watched, clock=clock)) as app:
        for nth in range(200):
            await add_job(app, f"job-{nth}", Every(3600 * (nth + 2), anchor=START))
        await add_job(app, "one", MINUTELY)
        async with app.running():
            await clock.advance(5)
            before = watched.calls.copy()
            await clock.advance(115)
            asked = watched.calls - before

    assert (asked["due_jobs"], asked["fire"], asked["jobs"]) == (4, 2, 0)


@pytest.mark.checklist("W1-6")
async def test_a_job_that_cannot_be_read_is_not_tried_in_a_busy_loop(
    watched: WatchedStore, clock: FakeClock, started: Started
) -> None:
    async with started.on(Scheduler(store=watched, clock=clock)) as app:
        await add_unreadable_job(app, "bad")
        async with app.running():
            await clock.advance(61)
            before = watched.calls["due_jobs"]
            await clock.advance(60)
            looks = watched.calls["due_jobs"] - before
            services = {one.name: (one.alive, one.restarts) for one in app.status().services}

    assert looks <= 61
    assert services["ticker"] == (True, 0)


@pytest.mark.checklist("W1-13")
async def test_what_is_due_is_driven_by_the_scheduler_and_what_is_overdue_is_reported(
    worker: Scheduler, clock: FakeClock
) -> None:
    await add_unreadable_job(worker, "overdue")

    async with worker.running():
        await passes(clock, 62)
        await until(lambda: "overdue" in worker.status().bad_jobs)
        said = worker.status().bad_jobs["overdue"]

    assert "version 99" in said
