"""Weaknesses and bugs that schedulers are known for, each a test that the original would fail.

`W1` to `W4` are lines of the list of weaknesses of the systems that laneway learned from; the others are public bugs.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from laneway import At, BadSetting, Context, Cron, DailyAt, Every, Retry, Scheduler
from laneway.core.common.instants import SECOND, instant, micros
from laneway.core.jobs.plan import patched
from laneway.core.jobs.record import FireKind, Halt, Misfire
from laneway.core.records.states import RunState
from laneway.testing import FakeClock
from tests.engine.conftest import address
from tests.engine.jobbing import (
    MINUTE,
    MINUTELY,
    START,
    Started,
    add_unreadable_job,
    change_job,
    counted,
    fleet,
    recorded,
)
from tests.engine.support import (
    WatchedStore,
    add_job,
    as_time_passes,
    fires_of,
    passes,
    scheduler_on,
    soon,
    turns,
    until,
)
from tests.support.jobs import spec_of, standing

HOUR = timedelta(hours=1)


# Twice on several instances


# celery#2856, apscheduler#655, taskiq#244
async def test_a_cron_rule_does_not_fire_twice_because_several_instances_know_it(
    worker: Scheduler, url: str, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", Cron("* * * * *"), overlap="allow")

    async with fleet(worker, url, clock, started, 3):
        for nth in range(1, 11):
            await clock.advance(60)
            await until(lambda nth=nth: len(started) == nth)  # type: ignore[misc]
            # A minute is longer than a lease: what has not ended by then is another worker's to execute again.
            for run in await worker.runs(task="work"):
                await soon(worker.wait(run.id))
        await clock.advance(5)

    assert started.of("job") == [START + MINUTE * nth for nth in range(1, 11)]
    assert len(await worker.runs(task="work")) == 10


async def test_w4_9_an_instance_that_starts_while_another_executes_a_fire_repeats_nothing(
    url: str, clock: FakeClock
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await release.wait()

    # The lease is long, because time passes faster here than the renewer's thread can.
    first = Scheduler(url, clock=clock, lease=3600)
    second = Scheduler(url, clock=clock, lease=3600)
    if url.startswith("memory"):
        second = scheduler_on(first._store, clock, lease=3600)
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


# Missed, silently, or made up for unasked


@pytest.mark.parametrize("bug", ["openclaw#33092", "openclaw#73644", "river#791"])
async def test_a_fire_that_was_missed_is_on_record_and_made_up_for_only_as_told(
    worker: Scheduler, clock: FakeClock, started: Started, bug: str
) -> None:
    await add_job(worker, f"{bug} skip", DailyAt(9), misfire=Misfire.SKIP)
    await add_job(worker, f"{bug} once", DailyAt(9), max_staleness=0)

    await clock.advance(timedelta(days=3, hours=12))
    await worker.drain()

    assert await counted(worker, f"{bug} skip") == {"missed": 4}
    assert await counted(worker, f"{bug} once") == {"missed": 3, "fired": 1}
    assert started.of(f"{bug} once") == [START + timedelta(days=3, hours=9)]
    [missed] = await fires_of(worker, f"{bug} skip")
    assert (instant(missed.first), instant(missed.last)) == (START + 9 * HOUR, START + timedelta(days=3, hours=9))


async def test_openclaw_12440_listing_a_job_that_is_overdue_does_not_move_its_next_fire(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", MINUTELY)
    await clock.advance(75)
    store = await worker.open()

    for _ in range(3):
        assert (await standing(store, "job")).state.next_at == micros(START + MINUTE)
    await worker.drain()

    assert started.of("job") == [START + MINUTE]


async def test_w4_7_a_one_shot_that_was_missed_or_failed_is_kept_and_says_so(app: Scheduler, clock: FakeClock) -> None:
    @app.task(name="work", retry=None)
    async def work() -> None:
        raise ValueError("no")

    await add_job(app, "late", At(START + HOUR), delete_after_run=True, misfire=Misfire.SKIP)
    await add_job(app, "fails", At(START + HOUR), delete_after_run=True)

    await clock.advance(HOUR + MINUTE)
    await app.drain()

    store = await app.open()
    late, fails = (await standing(store, "late")).state, (await standing(store, "fails")).state
    assert late.halted is Halt.MISSED
    assert (fails.halted, fails.last_state, fails.last_error) == (Halt.FAILED, RunState.FAILED, "no")
    assert [record.kind for record in await fires_of(app, "late")] == [FireKind.MISSED]


# Restarts


async def test_w1_1_a_process_that_is_restarted_all_the_time_fires_a_long_interval_all_the_same(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", Every(6 * HOUR))

    for _ in range(30):
        async with worker.running():
            await turns()
        await clock.advance(HOUR)
        await worker.drain()

    assert started.of("job") == [START + 6 * HOUR * nth for nth in range(1, 6)]


async def test_w1_1_failures_are_still_counted_after_a_restart(tmp_path, clock: FakeClock) -> None:  # type: ignore[no-untyped-def]
    failures = 0
    for _ in range(3):
        async with Scheduler(address("sqlite", tmp_path), clock=clock) as app:

            @app.task(name="work", retry=None)
            async def work() -> None:
                raise ValueError("no")

            if clock.monotonic() == 0:
                await add_job(app, "job", MINUTELY)
            await clock.advance(60)
            await app.drain()
            failures = (await standing(await app.open(), "job")).state.failures

    assert failures == 3


@pytest.mark.parametrize("line", ["W1-2", "W4-15"])
async def test_intervals_do_not_drift_by_what_runs_take_nor_align_after_an_outage(
    app: Scheduler, clock: FakeClock, line: str
) -> None:
    nominal: dict[str, list[datetime]] = {"a": [], "b": []}

    @app.task(name="work")
    async def work(*, ctx: Context) -> None:
        assert ctx.job is not None
        nominal[ctx.job.name].append(ctx.job.nominal_at)
        clock.step(7)

    await add_job(app, "a", Every(600, anchor=START + MINUTE))
    await add_job(app, "b", Every(600, anchor=START + 4 * MINUTE))
    for _ in range(30):
        await clock.advance(60)
        await app.drain()
    clock.step(3 * 3600)
    await app.drain()

    for name, offset in (("a", 1), ("b", 4)):
        assert {(at - START) % timedelta(minutes=10) for at in nominal[name]} == {offset * MINUTE}, line
        assert len(nominal[name]) == len(set(nominal[name])) >= 4


async def test_w4_8_a_run_that_a_crash_interrupted_is_executed_again(clock: FakeClock, watched: WatchedStore) -> None:
    dead, heir = scheduler_on(watched, clock), scheduler_on(watched, clock)
    begun, ended = asyncio.Event(), asyncio.Event()

    @dead.task(name="work")
    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    @heir.task(name="work")
    async def works() -> None:
        ended.set()

    await add_job(dead, "job", MINUTELY)
    working = asyncio.create_task(dead.work())
    await as_time_passes(clock, begun.wait())
    worker = dead._lifecycle.worker
    assert worker is not None
    await watched.leave(worker._incarnation)  # as when its process is seen to be gone
    async with heir.running():
        await as_time_passes(clock, ended.wait())
        [record] = await recorded(heir, "job", 1)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert record.run_id is not None
    run = await heir.get(record.run_id)
    assert (run.state, run.fence) == (RunState.SUCCEEDED, 2)


async def test_w4_12_a_time_out_is_tried_again_only_if_the_job_says_so(app: Scheduler, clock: FakeClock) -> None:
    starts = []

    @app.task(name="work", retry=Retry(attempts=4))
    async def work() -> None:
        starts.append(clock.monotonic())
        await asyncio.Event().wait()

    once = Retry(attempts=4, on_timeout=False)
    await add_job(app, "job", Every(3600, anchor=START), timeout=10 * SECOND, retry=once)
    await clock.advance(3600)

    await as_time_passes(clock, app.drain(), step=1)

    [record] = await fires_of(app, "job")
    assert record.run_id is not None
    assert (await app.get(record.run_id)).reason == "timed_out"
    assert len(starts) == 1


async def test_w4_12_a_stop_waits_for_a_fire_that_is_executed(app: Scheduler, clock: FakeClock) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task(name="work")
    async def work() -> None:
        begun.set()
        await release.wait()

    await add_job(app, "job", MINUTELY)
    async with app.running():
        await clock.advance(60)
        await soon(begun.wait())

        stop = asyncio.create_task(app.stop())
        await turns()
        waits = not stop.done()
        release.set()
        await soon(stop)

    [record] = await fires_of(app, "job")
    assert waits
    assert record.run_id is not None
    assert (await app.get(record.run_id)).state is RunState.SUCCEEDED


async def test_w4_12_a_stop_does_not_sit_out_a_retry(app: Scheduler, clock: FakeClock) -> None:
    @app.task(name="work", retry=Retry.delays(3600))
    async def work() -> None:
        raise ValueError("no")

    await add_job(app, "job", MINUTELY)
    async with app.running():
        await clock.advance(60)
        [record] = await recorded(app, "job", 1)
        assert record.run_id is not None
        async for event in app.events(record.run_id):
            if event.kind == "retrying":
                break

        await soon(app.stop())

    assert (await app.get(record.run_id)).state is RunState.PENDING


# Clocks and zones


async def test_w1_3_a_daily_job_fires_once_on_the_day_that_has_its_hour_twice(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    fold = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)  # 1:30 in New York, an hour before it is 1:30 again
    clock.step(fold - START - HOUR)
    await add_job(worker, "job", DailyAt(1, 30, tz="America/New_York"))

    for _ in range(5):
        await clock.advance(2700)  # as long as a run takes there
        await worker.drain()

    assert started.of("job") == [fold]


async def test_w2_8_a_minutely_job_goes_on_through_the_hour_that_comes_twice(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    before = datetime(2026, 11, 1, 5, 0, tzinfo=UTC)
    clock.step(before - START)
    await add_job(worker, "job", Cron("*/10 * * * *", tz="America/New_York"))

    for _ in range(12):
        await clock.advance(600)
        await worker.drain()

    assert started.of("job") == [before + timedelta(minutes=10) * nth for nth in range(1, 13)]


@pytest.mark.parametrize("by", [300.0, -300.0])
async def test_w1_4_a_clock_that_is_set_while_a_job_waits_changes_when_it_fires_and_not_for_what(
    worker: Scheduler, clock: FakeClock, started: Started, by: float
) -> None:
    clock.step(12 * 3600)
    await add_job(worker, "job", DailyAt(12, 10))

    async with worker.running():
        await clock.advance(5)
        clock.step(by)
        await passes(clock, 2)
        wall = START + timedelta(hours=12, minutes=10)
        await clock.advance(wall - instant(clock.now()))
        await until(lambda: len(started) == 1)

    assert started.notes == [("job", wall, wall)]


async def test_w2_12_a_clock_that_jumps_makes_no_worker_look_dead_and_no_interval_wrong(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", MINUTELY)

    async with worker.running():
        await clock.advance(60)
        await until(lambda: len(started) == 1)
        clock.step(86_400)
        await passes(clock, 30)
        await until(lambda: len(started) == 2)
        status = worker.status()
        await clock.advance(30)
        await until(lambda: len(started) == 3)

    day = timedelta(days=1)
    assert started.of("job") == [START + MINUTE, START + day + MINUTE, START + day + 2 * MINUTE]
    assert status.healthy


# Latency, bad schedules, bad neighbours


@pytest.mark.parametrize("line", ["W1-5", "W4-16"])
async def test_a_job_that_another_process_makes_or_changes_fires_at_its_time_and_not_a_minute_later(
    worker: Scheduler, url: str, clock: FakeClock, started: Started, line: str
) -> None:
    other = scheduler_on(worker._store, clock) if url.startswith("memory") else Scheduler(url, clock=clock)

    async with worker.running():
        await passes(clock, 3)
        job = await add_job(other, line, At(START + timedelta(seconds=30)))
        await passes(clock, 5)
        sooner = msgspec.structs.replace(job.spec, schedule=spec_of(At(START + timedelta(seconds=10))).schedule)
        await change_job(other, line, lambda job: patched(job, sooner, clock.now(), "UTC"))
        await passes(clock, 2.5, step=0.5)
        await until(lambda: len(started) == 1)
    await other.aclose()

    assert started.of(line) == [START + timedelta(seconds=10)]


async def test_w4_16_what_is_not_due_is_not_looked_at(
    watched: WatchedStore, clock: FakeClock, started: Started
) -> None:
    async with started.on(scheduler_on(watched, clock)) as app:
        for nth in range(200):
            await add_job(app, f"job-{nth}", Every(3600 * (nth + 2), anchor=START))
        await add_job(app, "one", MINUTELY)
        async with app.running():
            await clock.advance(5)
            before = watched.calls.copy()
            await clock.advance(115)
            asked = watched.calls - before

    assert (asked["due_jobs"], asked["fire"], asked["jobs"]) == (4, 2, 0)


@pytest.mark.parametrize(
    "bad",
    [lambda: DailyAt(25), lambda: Every(0), lambda: Cron("61 * * * *"), lambda: At("soon")],  # type: ignore[arg-type]
)
async def test_w1_6_a_bad_schedule_is_refused_when_it_is_made(bad) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadSetting):
        bad()


async def test_w1_6_a_job_that_cannot_be_read_is_not_tried_in_a_busy_loop(
    watched: WatchedStore, clock: FakeClock, started: Started
) -> None:
    async with started.on(scheduler_on(watched, clock)) as app:
        await add_unreadable_job(app, "bad")
        async with app.running():
            await clock.advance(61)
            before = watched.calls["due_jobs"]
            await clock.advance(60)
            looks = watched.calls["due_jobs"] - before
            services = {one.name: (one.alive, one.restarts) for one in app.status().services}

    assert looks <= 61
    assert services["ticker"] == (True, 0)


async def test_w1_13_what_is_due_is_driven_by_the_scheduler_and_what_is_overdue_is_reported(
    worker: Scheduler, clock: FakeClock
) -> None:
    await add_unreadable_job(worker, "overdue")

    async with worker.running():
        await passes(clock, 62)
        await until(lambda: "overdue" in worker.status().bad_jobs)
        said = worker.status().bad_jobs["overdue"]

    assert "version 99" in said
