"""Jobs and time: after outages, when the clock is set, when the machine slept, when the store is out of reach."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from laneway import Context, Cron, DailyAt, Every, Scheduler
from laneway.core.common.instants import instant, micros
from laneway.core.jobs.record import FireKind, Misfire
from laneway.testing import FakeClock
from tests.support.jobs import standing
from tests.support.scheduler_jobs import (
    MINUTE,
    MINUTELY,
    START,
    Started,
    add_job,
    counted,
    fire_due,
    fires_of,
    recorded,
    with_tasks,
)
from tests.support.waits import passes, soon, turns, until
from tests.support.watched_store import WatchedStore

HOUR = timedelta(hours=1)
SECONDS_PER_HOUR = 3600
OUTAGES = {"30 minutes": SECONDS_PER_HOUR // 2, "3 hours": 3 * SECONDS_PER_HOUR, "3 days": 72 * SECONDS_PER_HOUR}


# Outages


@pytest.mark.parametrize("misfire", Misfire)
@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("rule", [Every(300, anchor=START), Cron("*/5 * * * *")], ids=["every", "cron"])
async def test_what_was_missed_in_an_outage_is_made_up_for_as_told(
    worker: Scheduler, clock: FakeClock, started: Started, outage: str, misfire: Misfire, rule: Every | Cron
) -> None:
    await add_job(worker, "job", rule, misfire=misfire)
    slots = OUTAGES[outage] // 300
    made_up = {Misfire.SKIP: 0, Misfire.ONCE: 1, Misfire.ALL: min(100, slots)}[misfire]

    await clock.advance(OUTAGES[outage] + 120)
    async with worker.running():
        await recorded(worker, "job", 1)
        await until(lambda: len(started) == made_up)
        await clock.advance(180)
        await until(lambda: len(started) == made_up + 1)

    expected = [START + 5 * MINUTE * nth for nth in range(slots - made_up + 1, slots + 2)]
    assert started.of("job") == expected
    missed = {} if slots == made_up else {"missed": slots - made_up}
    assert await counted(worker, "job") == {"fired": made_up + 1, **missed}


async def test_what_is_staler_than_it_may_be_is_missed_and_says_so(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "daily", DailyAt(1))
    await add_job(worker, "patient", DailyAt(1), max_staleness=0)

    await clock.advance(20 * SECONDS_PER_HOUR)
    async with worker.running():
        [missed] = await recorded(worker, "daily", 1)
        await until(lambda: len(started) == 1)

    assert (missed.kind, missed.reason, missed.count) == (FireKind.MISSED, "stale", 1)
    assert started.of("patient") == [START + timedelta(hours=1)]


# A clock that is set


async def test_a_clock_that_is_set_ahead_floods_nobody_and_is_noticed_within_a_second(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", MINUTELY)

    async with worker.running():
        await clock.advance(60)
        await until(lambda: len(started) == 1)
        clock.step(10 * SECONDS_PER_HOUR)
        await clock.advance(1)
        await until(lambda: len(started) == 2)
        await clock.advance(59)
        await until(lambda: len(started) == 3)

    ahead = START + timedelta(hours=10)
    assert started.of("job") == [START + MINUTE, ahead + MINUTE, ahead + 2 * MINUTE]
    assert await counted(worker, "job") == {"fired": 3, "missed": 599}


async def test_a_clock_that_is_set_back_stalls_nothing_and_fires_nothing_twice(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", MINUTELY)
    await add_job(worker, "daily", DailyAt(0, 8))
    store = await worker.open()

    async with worker.running():
        for nth in range(1, 11):
            await clock.advance(60)
            await until(lambda nth=nth: len(started.of("job")) == nth)  # type: ignore[misc]
        clock.step(-300)
        await clock.advance(1)
        [*_, stepped] = await recorded(worker, "job", 11)
        again = (await standing(store, "daily")).state.next_at
        for _ in range(7):
            await passes(clock, 60, step=5)
        await until(lambda: len(started.of("job")) == 12)

    assert (stepped.kind, stepped.reason) == (FireKind.CLOCK_STEPPED, "clock_set_back")
    assert again == stepped.first + 2 * 60_000_000  # today's 0:08 once more
    assert started.of("job") == [START + MINUTE * nth for nth in range(1, 13)]
    assert started.of("daily") == [START + 8 * MINUTE]
    assert await counted(worker, "job") == {"fired": 12, "clock_stepped": 1}


async def test_a_clock_that_was_set_back_while_nobody_worked_is_noticed_at_the_start(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await clock.advance(30 * 24 * SECONDS_PER_HOUR)
    await add_job(worker, "job", Every(SECONDS_PER_HOUR, anchor=START))
    clock.step(-30 * 24 * SECONDS_PER_HOUR)

    async with worker.running():
        [stepped] = await recorded(worker, "job", 1)
        await clock.advance(SECONDS_PER_HOUR)
        await until(lambda: len(started) == 1)

    assert stepped.kind is FireKind.CLOCK_STEPPED
    assert started.of("job") == [START + timedelta(hours=1)]


async def test_many_processes_set_a_job_back_once(clock: FakeClock, watched: WatchedStore, started: Started) -> None:
    apps = [started.on(Scheduler(store=watched, clock=clock)) for _ in range(3)]
    await add_job(apps[0], "job", MINUTELY)
    async with apps[0].running(), apps[1].running(), apps[2].running():
        await clock.advance(60)
        await until(lambda: len(started) == 1)
        clock.step(-SECONDS_PER_HOUR)
        await clock.advance(2)

    assert await counted(apps[0], "job") == {"fired": 1, "clock_stepped": 1}


async def test_a_machine_that_was_suspended_catches_up_when_it_wakes(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "all", Every(SECONDS_PER_HOUR, anchor=START), misfire=Misfire.ALL)
    await add_job(worker, "once", Every(SECONDS_PER_HOUR, anchor=START))

    async with worker.running():
        await clock.advance(10)
        clock.step(8 * SECONDS_PER_HOUR)  # monotonic time stood still meanwhile
        await clock.advance(1)
        await until(lambda: len(started) == 9)

    hours = [START + timedelta(hours=nth) for nth in range(1, 9)]
    assert (started.of("all"), started.of("once")) == (hours, hours[-1:])


async def test_a_clock_that_is_slewed_a_little_makes_no_fire_late(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", MINUTELY)

    async with worker.running():
        for _ in range(40):
            await clock.advance(1)
            clock.step(0.01)
        await clock.advance(60 - 40.4)
        await until(lambda: len(started) == 1)

    assert started.notes == [("job", START + MINUTE, START + MINUTE)]


# A store that does not answer


async def test_an_outage_of_the_store_loses_no_fire_and_makes_none_twice(
    watched: WatchedStore, clock: FakeClock, started: Started
) -> None:
    async with started.on(Scheduler(store=watched, clock=clock)) as app:
        await add_job(app, "job", Every(5, anchor=START))
        async with app.running():
            await clock.advance(1)
            watched.lose_reply("fire", 2)
            watched.fail("due_jobs", 3)
            await passes(clock, 30, step=0.25)
            health = [(one.alive, one.restarts) for one in app.status().services if one.name == "ticker"]

    assert started.of("job") == [START + timedelta(seconds=5 * nth) for nth in range(1, 7)]
    assert await counted(app, "job") == {"fired": 6}
    assert health == [(True, 0)]


async def test_a_ticker_that_waits_asks_the_store_for_nothing(watched: WatchedStore, clock: FakeClock) -> None:
    async with Started(clock).on(Scheduler(store=watched, clock=clock)) as app:
        await add_job(app, "job", Every(SECONDS_PER_HOUR, anchor=START))
        async with app.running():
            await clock.advance(10)
            before = watched.calls["due_jobs"]
            await clock.advance(600)
            asked = watched.calls["due_jobs"] - before

    assert asked == 0


async def test_without_jobs_the_ticker_does_not_even_nap(app: Scheduler, clock: FakeClock) -> None:
    async with app.running():
        await clock.advance(0.5)
        without = clock.sleepers
        await add_job(app, "job", Every(SECONDS_PER_HOUR, anchor=START))
        await soon(_sleeps(clock, without + 1))
        assert clock.sleepers > without


async def _sleeps(clock: FakeClock, number: int) -> None:
    while clock.sleepers < number:
        await clock.advance(0.01)


async def test_reading_a_job_moves_nothing(worker: Scheduler, clock: FakeClock) -> None:
    job = await add_job(worker, "job", MINUTELY)
    await clock.advance(600)
    store = await worker.open()

    for _ in range(3):
        await store.due_jobs()
        assert await fires_of(worker, "job") == []

    assert await standing(store, "job") == job


@pytest.mark.checklist("W4-15")
async def test_periods_of_equal_length_keep_their_offsets_through_an_outage(
    jobs_app: Scheduler, clock: FakeClock
) -> None:
    for name in ("a", "b", "c"):
        await jobs_app.jobs.create(name, Every(3600), "cleanup")
        await clock.advance(600)

    await clock.advance(timedelta(hours=7))
    await fire_due(jobs_app)

    nexts = [job.next_fire_at for job in await jobs_app.jobs.list()]
    assert [f"{at:%M}" for at in nexts if at] == ["00", "10", "20"]


@pytest.mark.checklist("W4-19")
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
async def test_a_daily_job_fires_once_a_day_when_the_clock_is_changed(
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


@pytest.mark.checklist("openclaw#33092", "openclaw#73644", "river#791")
async def test_a_fire_that_was_missed_is_on_record_and_made_up_for_only_as_told(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "skips", DailyAt(9), misfire=Misfire.SKIP)
    await add_job(worker, "once", DailyAt(9), max_staleness=0)

    await clock.advance(timedelta(days=3, hours=12))
    await worker.drain()

    assert await counted(worker, "skips") == {"missed": 4}
    assert await counted(worker, "once") == {"missed": 3, "fired": 1}
    assert started.of("once") == [START + timedelta(days=3, hours=9)]
    [missed] = await fires_of(worker, "skips")
    assert (instant(missed.first), instant(missed.last)) == (START + 9 * HOUR, START + timedelta(days=3, hours=9))


@pytest.mark.checklist("openclaw#12440")
async def test_listing_a_job_that_is_overdue_does_not_move_its_next_fire(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", MINUTELY)
    await clock.advance(75)
    store = await worker.open()

    for _ in range(3):
        assert (await standing(store, "job")).state.next_at == micros(START + MINUTE)
    await worker.drain()

    assert started.of("job") == [START + MINUTE]


@pytest.mark.checklist("W1-1")
async def test_a_process_that_is_restarted_all_the_time_fires_a_long_interval_all_the_same(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "job", Every(6 * HOUR))

    for _ in range(30):
        async with worker.running():
            await turns()
        await clock.advance(HOUR)
        await worker.drain()

    assert started.of("job") == [START + 6 * HOUR * nth for nth in range(1, 6)]


@pytest.mark.checklist("W1-2", "W4-15")
async def test_intervals_do_not_drift_by_what_runs_take_nor_align_after_an_outage(
    app: Scheduler, clock: FakeClock
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
        assert {(at - START) % timedelta(minutes=10) for at in nominal[name]} == {offset * MINUTE}
        assert len(nominal[name]) == len(set(nominal[name])) >= 4


@pytest.mark.checklist("W1-3")
async def test_a_daily_job_fires_once_on_the_day_that_has_its_hour_twice(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    fold = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)  # 1:30 in New York, an hour before it is 1:30 again
    clock.step(fold - START - HOUR)
    await add_job(worker, "job", DailyAt(1, 30, tz="America/New_York"))

    for _ in range(5):
        await clock.advance(2700)  # as long as a run takes there
        await worker.drain()

    assert started.of("job") == [fold]


@pytest.mark.checklist("W2-8")
async def test_a_minutely_job_goes_on_through_the_hour_that_comes_twice(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    before = datetime(2026, 11, 1, 5, 0, tzinfo=UTC)
    clock.step(before - START)
    await add_job(worker, "job", Cron("*/10 * * * *", tz="America/New_York"))

    for _ in range(12):
        await clock.advance(600)
        await worker.drain()

    assert started.of("job") == [before + timedelta(minutes=10) * nth for nth in range(1, 13)]


@pytest.mark.checklist("W1-4")
@pytest.mark.parametrize("by", [300.0, -300.0])
async def test_a_clock_that_is_set_while_a_job_waits_changes_when_it_fires_and_not_for_what(
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


@pytest.mark.checklist("W2-12")
async def test_a_clock_that_jumps_makes_no_worker_look_dead_and_no_interval_wrong(
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
