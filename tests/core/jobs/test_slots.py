"""Which of a job's nominal times are due."""

from datetime import UTC, datetime
from itertools import takewhile

import pytest

from laneway.core.common.instants import SECOND, instant, micros
from laneway.core.jobs.plan import changed, spread
from laneway.core.jobs.slots import COUNTED, KEPT, slots_due
from laneway.core.schedules import AnyOf, At, Cron, DailyAt, Every, Schedule
from laneway.testing.clock import START
from tests.support.jobs import HOUR, new_job

MINUTE = 60 * SECOND
H = HOUR * SECOND


def one_by_one(rule: Schedule, first: int, now: int) -> list[int]:
    later = takewhile(lambda fire: fire <= instant(now), rule.fires(instant(first), "UTC"))
    return [first, *map(micros, later)]


@pytest.mark.parametrize("length", [0, 59, 60, 61, 3600, 6000, 6060, 86400 * 3])
@pytest.mark.parametrize(
    "rule",
    [
        Every(60),
        Every(61, anchor=datetime(2025, 1, 1, 0, 0, 7, tzinfo=UTC)),
        Every(0.75),
        Cron("* * * * *"),
        Cron("*/7 3-5 * * *"),
        DailyAt(9),
        AnyOf(Every(3600), Cron("5 * * * *")),
    ],
)
def test_slots_are_those_of_the_rule_from_the_next_to_now(rule: Schedule, length: int) -> None:
    job = new_job(START, rule)
    first = job.state.next_at or 0
    now = first + length * SECOND
    found = slots_due(job, now, "UTC")

    if isinstance(rule, Every) and length > 10_000 and rule.period.total_seconds() < 1:  # type: ignore[union-attr] # a timedelta, once it is made
        assert found.count == length * 4 // 3 + 1
        return
    slots = one_by_one(rule, first, now)
    assert (found.first, found.count, found.more) == (first, len(slots), False)
    assert list(found.newest) == slots[-KEPT:]


@pytest.mark.parametrize("length", [0, 36, 37, 38, 97, 98, 6000])
def test_a_first_slot_that_the_anchor_does_not_count_is_one_more(length: int) -> None:
    rule = Every(HOUR, anchor=datetime(2025, 1, 1, 0, 7, tzinfo=UTC))
    now = START + 30 * MINUTE
    job = new_job(now, rule, run_on_start=True)
    assert job.state.next_at == now

    found = slots_due(job, now + length * MINUTE, "UTC")

    slots = one_by_one(rule, now, now + length * MINUTE)
    assert (found.count, list(found.newest)) == (len(slots), slots[-KEPT:])


@pytest.mark.parametrize("length", [1, 86400 * 400])
def test_every_counts_by_arithmetic_however_many(length: int) -> None:
    job = new_job(START, Every(0.001))

    found = slots_due(job, (job.state.next_at or 0) + length * SECOND, "UTC")

    assert (found.count, found.more) == (length * 1000 + 1, False)
    assert found.newest[-1] == (job.state.next_at or 0) + length * SECOND


@pytest.mark.parametrize(("minutes", "more"), [(COUNTED - 1, False), (COUNTED, False), (COUNTED + 1, True)])
def test_cron_is_counted_exactly_up_to_ten_thousand(minutes: int, more: bool) -> None:
    job = new_job(START, Cron("* * * * *"))
    now = (job.state.next_at or 0) + minutes * MINUTE

    found = slots_due(job, now, "UTC")

    assert (found.count, found.more) == (min(minutes, COUNTED) + 1, more)
    assert list(found.newest) == [now - nth * MINUTE for nth in range(KEPT - 1, -1, -1)]


def test_the_newest_are_found_though_they_are_long_ago() -> None:
    job = new_job(START, Cron("* * * 1 *"))
    now = START + 200 * 24 * H

    found = slots_due(job, now, "UTC")

    last = START + 31 * 24 * H - MINUTE
    assert (found.count, found.more) == (COUNTED + 1, True)
    assert list(found.newest) == [last - nth * MINUTE for nth in range(KEPT - 1, -1, -1)]


def test_a_slot_whose_jitter_is_not_over_is_not_due() -> None:
    job = new_job(START, Every(60, jitter=59), id="j")
    first = job.state.next_at or 0
    for nth in range(1, 50):
        nominal = first + nth * MINUTE
        before = slots_due(job, spread(job, nominal) - 1, "UTC")
        after = slots_due(job, spread(job, nominal), "UTC")

        assert (before.newest[-1], before.count) == (nominal - MINUTE, nth)
        assert (after.newest[-1], after.count) == (nominal, nth + 1)


def test_one_that_counts_from_its_end_has_one_slot() -> None:
    job = changed(new_job(START, Every(60, after="end")), next_at=START)

    found = slots_due(job, START + 50 * H, "UTC")

    assert (found.first, found.newest, found.count) == (START, (START,), 1)


def test_a_one_shot_has_one_slot() -> None:
    job = new_job(START, At(instant(START + H)))

    assert slots_due(job, START + 99 * H, "UTC").newest == (START + H,)
