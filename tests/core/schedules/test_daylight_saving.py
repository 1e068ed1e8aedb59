"""Through gap and fold: the rule of the design, and the failures of others that must not be ours."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest

from laneway import AnyOf, At, Between, Cron, DailyAt, Every, Except, Monthly, Weekly
from laneway.core.schedules import Schedule
from laneway.core.schedules.notes import note

NEW_YORK, BERLIN, LORD_HOWE = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"


def wall(text: str) -> datetime:
    """Return what a clock shows, without saying where."""
    return datetime.fromisoformat(text)


def local(text: str, zone: str, *, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)


def shown(rule: Schedule, zone: str, after: str, count: int, *, fold: int = 0) -> list[str]:
    """Return the next fires as the wall shows them, with their offset."""
    fires = islice(rule.fires(local(after, zone, fold=fold), zone), count)
    return [fire.astimezone(ZoneInfo(zone)).isoformat(timespec="minutes") for fire in fires]


def test_a_time_in_a_gap_fires_once_at_the_first_instant_after_it() -> None:
    assert shown(Cron("30 2 * * *"), NEW_YORK, "2026-03-07T12:00", 2) == [
        "2026-03-08T03:00-04:00",
        "2026-03-09T02:30-04:00",
    ]


def test_several_times_in_one_gap_collapse_to_one() -> None:
    for rule in (Cron("0,15,30 2 * * *"), Cron("0-59 2 * * *"), AnyOf(DailyAt(2), DailyAt(2, 30), DailyAt(3))):
        first, second = shown(rule, NEW_YORK, "2026-03-08T00:00", 2)
        assert first == "2026-03-08T03:00-04:00"
        assert second.startswith("2026-03-09")


def test_a_time_that_shows_twice_fires_the_first_time() -> None:
    for rule in (Cron("30 1 * * *"), DailyAt(1, 30), Cron("0 30 1 * * *"), Monthly(1, 1, 30), Weekly("sun", 1, 30)):
        first, second = shown(rule, NEW_YORK, "2026-11-01T00:00", 2)
        assert first == "2026-11-01T01:30-04:00"
        assert not second.startswith("2026-11-01")


def test_asked_inside_the_second_showing_it_answers_later_and_not_earlier() -> None:
    asked = local("2026-11-01T01:10", NEW_YORK, fold=1)

    answer = DailyAt(1, 30).next_after(asked, NEW_YORK)

    assert answer == local("2026-11-02T01:30", NEW_YORK)


def test_six_fields_are_fixed_time_like_five() -> None:
    assert shown(Cron("0 30 1 * * *"), NEW_YORK, "2026-11-01T00:00", 2) == [
        "2026-11-01T01:30-04:00",
        "2026-11-02T01:30-05:00",
    ]


def test_a_rule_by_elapsed_time_does_not_lose_a_gap_day() -> None:
    assert shown(Cron("*/20 2 * * *"), NEW_YORK, "2026-03-07T12:00", 4) == [
        "2026-03-08T03:00-04:00",
        "2026-03-08T03:20-04:00",
        "2026-03-08T03:40-04:00",
        "2026-03-09T02:00-04:00",
    ]


def test_a_rule_by_elapsed_time_fires_in_both_showings() -> None:
    assert shown(Cron("*/30 1 * * *"), NEW_YORK, "2026-11-01T00:00", 5) == [
        "2026-11-01T01:00-04:00",
        "2026-11-01T01:30-04:00",
        "2026-11-01T01:00-05:00",
        "2026-11-01T01:30-05:00",
        "2026-11-02T01:00-05:00",
    ]


def test_half_an_hour_is_a_fold_and_a_gap_too() -> None:
    assert shown(DailyAt(1, 45), LORD_HOWE, "2026-04-05T00:00", 2) == [
        "2026-04-05T01:45+11:00",
        "2026-04-06T01:45+10:30",
    ]
    assert shown(DailyAt(2, 15), LORD_HOWE, "2026-10-04T00:00", 2) == [
        "2026-10-04T02:30+11:00",
        "2026-10-05T02:15+11:00",
    ]
    assert shown(Cron("0 * * * *"), LORD_HOWE, "2026-10-04T00:30", 3) == [
        "2026-10-04T01:00+10:30",
        "2026-10-04T02:30+11:00",
        "2026-10-04T03:00+11:00",
    ]


def test_a_gap_at_midnight_moves_the_first_fire_of_the_day() -> None:
    assert shown(Cron("30 0 * * *"), "Africa/Cairo", "2026-04-23T12:00", 2) == [
        "2026-04-24T01:00+03:00",
        "2026-04-25T00:30+03:00",
    ]


def test_a_day_that_a_country_left_out_fires_at_its_end() -> None:
    assert shown(DailyAt(9), "Pacific/Apia", "2011-12-29T08:00", 4) == [
        "2011-12-29T09:00-10:00",
        "2011-12-31T00:00+14:00",
        "2011-12-31T09:00+14:00",
        "2012-01-01T09:00+14:00",
    ]


def test_a_window_and_left_out_dates_go_by_what_the_wall_shows() -> None:
    halves = Cron("*/30 * * * *")

    assert shown(Between(halves, "00:30", "01:30"), NEW_YORK, "2026-11-01T00:15", 4) == [
        "2026-11-01T00:30-04:00",
        "2026-11-01T01:00-04:00",
        "2026-11-01T01:00-05:00",
        "2026-11-02T00:30-05:00",
    ]
    # The clock goes back at midnight: the last hour of the 24th shows twice, and both are left out.
    assert shown(Except(halves, ["2026-10-24"]), "Asia/Beirut", "2026-10-23T23:30", 1) == ["2026-10-25T00:00+02:00"]


def test_celery_6438_every_minute_goes_on_through_the_end_of_summer_time() -> None:
    fires = list(islice(Cron("* * * * *").fires(local("2020-10-25T01:00", "Europe/Paris"), "Europe/Paris"), 240))

    assert {later - earlier for earlier, later in pairwise(fires)} == {timedelta(minutes=1)}


def test_celery_9653_a_time_after_the_gap_is_not_an_hour_late() -> None:
    assert shown(Cron("4 16 * * *"), "Europe/Zurich", "2025-03-29T16:04", 2) == [
        "2025-03-30T16:04+02:00",
        "2025-03-31T16:04+02:00",
    ]


def test_celery_10107_an_hourly_rule_fires_in_the_repeated_hour() -> None:
    rule = Cron("0 * * * *")

    assert rule.next_after(datetime(2026, 11, 1, 8, tzinfo=UTC), "US/Pacific") == datetime(2026, 11, 1, 9, tzinfo=UTC)


def test_apscheduler_980_a_two_hourly_rule_gets_past_the_fold() -> None:
    assert shown(Cron("0 1-23/2 * * *"), "Europe/London", "2024-10-27T00:00", 3) == [
        "2024-10-27T01:00+01:00",
        "2024-10-27T03:00+00:00",
        "2024-10-27T05:00+00:00",
    ]
    assert shown(Cron("0 */2 * * *"), "Europe/London", "2024-10-27T00:30", 2) == [
        "2024-10-27T02:00+00:00",
        "2024-10-27T04:00+00:00",
    ]


def test_apscheduler_1021_an_answer_inside_the_fold_is_never_its_question() -> None:
    asked = local("2017-10-29T03:45", "Europe/Helsinki", fold=1)

    fires = list(islice(Cron("30 * * * *").fires(asked, "Europe/Helsinki"), 3))

    assert [fire - asked.astimezone(UTC) for fire in fires] == [timedelta(minutes=45, hours=n) for n in range(3)]
    second = local("2025-11-02T01:00:10", NEW_YORK, fold=1)
    assert Cron("10 0 1 * * *").next_after(second, NEW_YORK) == local("2025-11-03T01:00:10", NEW_YORK)


@pytest.mark.parametrize("change", ["2025-03-09T07:00", "2025-11-02T06:00"])
def test_apscheduler_1036_every_seven_seconds_goes_on_after_a_change(change: str) -> None:
    at = datetime.fromisoformat(change).replace(tzinfo=UTC)

    fires = list(islice(Cron("*/7 * * * * *").fires(at - timedelta(minutes=2), NEW_YORK), 60))

    assert {later - earlier for earlier, later in pairwise(fires)} <= {timedelta(seconds=7), timedelta(seconds=4)}
    assert fires[-1] > at


def test_apscheduler_1059_a_time_that_does_not_exist_is_never_an_answer() -> None:
    asked = local("2013-03-10T00:00", "US/Eastern")

    fires = list(islice(DailyAt(2).fires(asked, "US/Eastern"), 2))

    assert [fire.astimezone(ZoneInfo("US/Eastern")).isoformat() for fire in fires] == [
        "2013-03-10T03:00:00-04:00",
        "2013-03-11T02:00:00-04:00",
    ]


@pytest.mark.parametrize(
    ("rule", "fire", "kind", "text"),
    [
        (DailyAt(2, 30), "2026-03-08T03:00", "gap", "02:30 does not exist on this day"),
        (Cron("*/20 2 * * *"), "2026-03-08T03:20", "gap", "02:20 does not exist on this day"),
        (At(wall("2026-03-08T02:10")), "2026-03-08T03:00", "gap", "02:10 does not exist"),
        (DailyAt(1, 30), "2026-11-01T01:30", "fold", "01:30 comes twice on this day.*fires the first time only"),
        (Cron("*/30 * * * *"), "2026-11-01T01:30", "fold", "this is the first"),
        (Every(1800), "2026-11-01T01:30", "fold", "this is the first"),
        (Between(DailyAt(2, 30), "01:00", "04:00"), "2026-03-08T03:00", "gap", "02:30 does not exist"),
        (AnyOf(DailyAt(9), DailyAt(2, 30)), "2026-03-08T03:00", "gap", "02:30 does not exist"),
    ],
    ids=str,
)
def test_a_strange_fire_is_explained(rule: Schedule, fire: str, kind: str, text: str) -> None:
    at = local(fire, NEW_YORK).astimezone(UTC)
    assert rule.next_after(at - timedelta(seconds=1), NEW_YORK) == at

    said = note(rule, at, NEW_YORK)

    assert said is not None
    assert said.kind == kind
    assert re.search(text, said.text)


def test_the_second_showing_is_explained_as_the_second() -> None:
    said = note(Cron("*/30 * * * *"), local("2026-11-01T01:30", NEW_YORK, fold=1).astimezone(UTC), NEW_YORK)

    assert said is not None
    assert said.text.endswith("the clock goes back from 02:00 to 01:00: this is the second")


@pytest.mark.parametrize(
    ("rule", "fire"),
    [
        (DailyAt(3), "2026-03-08T03:00"),
        (Cron("*/20 * * * *"), "2026-03-08T03:20"),
        (DailyAt(2, 30), "2026-03-09T02:30"),
        (DailyAt(2), "2026-11-01T02:00"),
        (Every(1800), "2026-03-08T03:00"),
    ],
)
def test_a_usual_fire_needs_no_explanation(rule: Schedule, fire: str) -> None:
    assert note(rule, local(fire, NEW_YORK).astimezone(UTC), NEW_YORK) is None
