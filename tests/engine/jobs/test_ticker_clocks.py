"""Jobs and time: after outages, when the clock is set, when the machine slept, when the store is out of reach."""

from __future__ import annotations

from datetime import timedelta

import pytest

from laneway import Cron, DailyAt, Every, Scheduler
from laneway.core.jobs.record import FireKind, Misfire
from laneway.testing import FakeClock
from tests.engine.jobbing import MINUTE, MINUTELY, START, Started, counted, recorded
from tests.engine.support import WatchedStore, add_job, fires_of, passes, scheduler_on, soon, until
from tests.support.jobs import standing

HOUR = 3600
OUTAGES = {"30 minutes": HOUR // 2, "3 hours": 3 * HOUR, "3 days": 72 * HOUR}


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

    await clock.advance(20 * HOUR)
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
        clock.step(10 * HOUR)
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
    await clock.advance(30 * 24 * HOUR)
    await add_job(worker, "job", Every(HOUR, anchor=START))
    clock.step(-30 * 24 * HOUR)

    async with worker.running():
        [stepped] = await recorded(worker, "job", 1)
        await clock.advance(HOUR)
        await until(lambda: len(started) == 1)

    assert stepped.kind is FireKind.CLOCK_STEPPED
    assert started.of("job") == [START + timedelta(hours=1)]


async def test_many_processes_set_a_job_back_once(clock: FakeClock, watched: WatchedStore, started: Started) -> None:
    apps = [started.on(scheduler_on(watched, clock)) for _ in range(3)]
    await add_job(apps[0], "job", MINUTELY)
    async with apps[0].running(), apps[1].running(), apps[2].running():
        await clock.advance(60)
        await until(lambda: len(started) == 1)
        clock.step(-HOUR)
        await clock.advance(2)

    assert await counted(apps[0], "job") == {"fired": 1, "clock_stepped": 1}


async def test_a_machine_that_was_suspended_catches_up_when_it_wakes(
    worker: Scheduler, clock: FakeClock, started: Started
) -> None:
    await add_job(worker, "all", Every(HOUR, anchor=START), misfire=Misfire.ALL)
    await add_job(worker, "once", Every(HOUR, anchor=START))

    async with worker.running():
        await clock.advance(10)
        clock.step(8 * HOUR)  # monotonic time stood still meanwhile
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
    async with started.on(scheduler_on(watched, clock)) as app:
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
    async with Started().on(scheduler_on(watched, clock)) as app:
        await add_job(app, "job", Every(HOUR, anchor=START))
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
        await add_job(app, "job", Every(HOUR, anchor=START))
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
