"""What schedules promise: strictly later answers, refusals when they are made, a form that can be written down."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway import AnyOf, At, BadSetting, Between, Cron, DailyAt, Every, Except, Monthly, Weekly
from laneway.core.common.instants import instant, micros
from laneway.core.schedules import Schedule
from laneway.core.schedules.base import whole_seconds
from laneway.core.schedules.calendar.walls import Walls
from laneway.core.schedules.calendar.zones import Zone, zone
from laneway.core.schedules.daily import WallSchedule
from laneway.core.schedules.form import from_dict, to_dict
from laneway.core.schedules.text import read
from laneway.errors import StoreTooNew
from tests.oracle.corpus import corpus

START = datetime(2026, 1, 1, tzinfo=UTC)
ANCHOR = datetime(2026, 1, 1, 0, 7, tzinfo=UTC)


def wall(text: str) -> datetime:
    """Return what a clock shows, without saying where."""
    return datetime.fromisoformat(text)


def fires(rule: Schedule, count: int, after: datetime = START, tz: str | None = None) -> list[str]:
    return [f"{fire:%Y-%m-%dT%H:%M:%S}" for fire in islice(rule.fires(after, tz), count)]


def days(rule: Schedule, count: int, after: datetime = START) -> list[str]:
    return [fire[:10] for fire in fires(rule, count, after)]


def test_a_daily_rule_fires_today_if_its_time_is_still_ahead_and_else_tomorrow() -> None:
    rule = DailyAt(9, 30)

    assert fires(rule, 1, datetime(2026, 5, 1, 9, 29, 59, 999_999, tzinfo=UTC)) == ["2026-05-01T09:30:00"]
    assert fires(rule, 1, datetime(2026, 5, 1, 9, 30, tzinfo=UTC)) == ["2026-05-02T09:30:00"]


def test_the_schedule_s_own_zone_wins_over_the_one_given_with_the_question() -> None:
    assert fires(DailyAt(9, tz="Asia/Tokyo"), 1, tz="Europe/Berlin") == ["2026-01-02T00:00:00"]
    assert fires(DailyAt(9), 1, tz="Europe/Berlin") == ["2026-01-01T08:00:00"]
    assert fires(DailyAt(9), 1) == ["2026-01-01T09:00:00"]


def test_weekly_takes_names_and_iso_numbers_and_several_days() -> None:
    assert Weekly("mon", 9) == Weekly("Monday", 9) == Weekly(1, 9) == Weekly(("mon", 1), 9)
    assert days(Weekly(("fri", "mon"), 9), 3) == ["2026-01-02", "2026-01-05", "2026-01-09"]


def test_a_month_without_that_day_is_skipped_or_clamped() -> None:
    assert days(Monthly(31), 3) == ["2026-01-31", "2026-03-31", "2026-05-31"]
    assert days(Monthly(31, clamp=True), 3) == ["2026-01-31", "2026-02-28", "2026-03-31"]
    assert days(Monthly("last"), 3) == ["2026-01-31", "2026-02-28", "2026-03-31"]
    assert days(Monthly(29), 2, datetime(2028, 2, 1, tzinfo=UTC)) == ["2028-02-29", "2028-03-29"]


def test_monthly_finds_the_nth_weekday_and_the_last_one() -> None:
    assert days(Monthly("2nd tue"), 2) == ["2026-01-13", "2026-02-10"]
    assert days(Monthly("last fri"), 2) == ["2026-01-30", "2026-02-27"]
    assert days(Monthly("5th sun"), 2) == ["2026-03-29", "2026-05-31"]
    assert Monthly("Second Tuesday") == Monthly("2nd tue")


def test_an_interval_is_anchored_and_never_drifts() -> None:
    rule = Every(1800, anchor=ANCHOR)

    assert rule.next_after(START) == ANCHOR
    assert rule.next_after(ANCHOR) == ANCHOR + timedelta(minutes=30)
    assert rule.next_after(ANCHOR + timedelta(days=400, seconds=1)) == ANCHOR + timedelta(days=400, minutes=30)


def test_intervals_of_equal_length_keep_their_offsets_after_an_outage() -> None:
    back = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
    rules = [Every(3600, anchor=ANCHOR + timedelta(minutes=shift)) for shift in (0, 7, 20)]

    assert {rule.next_after(back).minute for rule in rules} == {7, 14, 27}  # type: ignore[union-attr]


def test_an_interval_from_the_end_counts_from_the_instant_asked_about() -> None:
    assert Every(60, after="end").next_after(ANCHOR + timedelta(seconds=13)) == ANCHOR + timedelta(seconds=73)


def test_an_anchor_is_given_once() -> None:
    assert Every(60).anchored(ANCHOR) == Every(60, anchor=ANCHOR)
    assert Every(60, anchor=START).anchored(ANCHOR) == Every(60, anchor=START)


@given(
    period=st.integers(1, 10**9),
    anchor=st.none() | st.integers(0, 4 * 10**15),
    after=st.integers(0, 4 * 10**15) | st.integers(250 * 10**15, 260 * 10**15),
    ends=st.booleans(),
)
def test_a_period_answers_in_numbers_what_it_answers_in_datetimes(
    period: int, anchor: int | None, after: int, ends: bool
) -> None:
    counted_from = None if anchor is None else instant(anchor)
    rule = Every(timedelta(microseconds=period), anchor=counted_from, after="end" if ends else "start")
    at = min(after, micros(datetime(9998, 1, 1, tzinfo=UTC)))

    fire = rule.next_after(instant(at))

    assert rule.following(at) == (None if fire is None else micros(fire))


@given(st.text(max_size=20), st.integers(0, 10**6))
def test_jitter_is_later_by_less_than_itself_and_the_same_for_everybody(key: str, slot: int) -> None:
    rule = Every(60, anchor=ANCHOR, jitter=20)
    nominal = ANCHOR + timedelta(minutes=slot)

    moved = rule.spread(nominal, key)

    assert nominal <= moved < nominal + timedelta(seconds=20)
    assert moved == Every(60, anchor=ANCHOR, jitter=20).spread(nominal, key)
    assert rule.next_after(nominal) == nominal + timedelta(minutes=1)


def test_jitter_differs_between_keys_and_reaches_through_other_rules() -> None:
    rule = Every(60, anchor=ANCHOR, jitter=20)

    assert len({rule.spread(ANCHOR, f"job-{n}") for n in range(100)}) > 90
    for around in (Between(rule, "00:00", "12:00"), Except(rule, ["2030-01-01"]), AnyOf(DailyAt(9, 30), rule)):
        assert around.spread(ANCHOR, "a") == rule.spread(ANCHOR, "a")
    assert AnyOf(DailyAt(9, 30), rule).spread(START.replace(hour=9, minute=30), "a") == START.replace(hour=9, minute=30)


def test_an_instant_fires_once() -> None:
    rule = At(datetime(2026, 12, 1, 9, tzinfo=UTC))

    assert fires(rule, 3) == ["2026-12-01T09:00:00"]
    assert rule.next_after(datetime(2026, 12, 1, 9, tzinfo=UTC)) is None


def test_an_instant_without_zone_is_read_on_the_wall() -> None:
    rule = At(wall("2026-12-01T09:00"))

    assert (fires(rule, 1, tz="Asia/Tokyo"), fires(rule, 1)) == (["2026-12-01T00:00:00"], ["2026-12-01T09:00:00"])
    assert fires(At(wall("2026-03-29T02:30"), "Europe/Berlin"), 1) == ["2026-03-29T01:00:00"]
    assert fires(At(wall("2026-10-25T02:30"), "Europe/Berlin"), 1) == ["2026-10-25T00:30:00"]


def test_either_day_field_of_a_cron_rule_matches_when_both_are_given() -> None:
    assert days(Cron("0 0 13 * 5"), 4) == ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]
    assert days(Cron("0 0 */13 * 5"), 2) == ["2026-02-27", "2026-03-27"]


def test_six_fields_have_the_second_first() -> None:
    assert fires(Cron("15,45 0 9 * * *"), 2) == ["2026-01-01T09:00:15", "2026-01-01T09:00:45"]


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("0 0 L * *", ["2026-01-31", "2026-02-28"]),
        ("0 0 LW * *", ["2026-01-30", "2026-02-27"]),
        ("0 0 * * 5L", ["2026-01-30", "2026-02-27"]),
        ("0 0 * * mon#1", ["2026-01-05", "2026-02-02"]),
        ("0 0 * * 1#L", ["2026-01-26", "2026-02-23"]),
        ("0 0 * * sun", ["2026-01-04", "2026-01-11"]),
        ("0 0 * * 0", ["2026-01-04", "2026-01-11"]),
        ("0 0 * * 7", ["2026-01-04", "2026-01-11"]),
        ("0 0 * * FRI-SUN", ["2026-01-02", "2026-01-03"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29"]),
        ("0 0 * 2 MON#5", ["2044-02-29", "2072-02-29"]),
        ("@monthly", ["2026-02-01", "2026-03-01"]),
        ("@yearly", ["2027-01-01", "2028-01-01"]),
        ("@weekly", ["2026-01-04", "2026-01-11"]),
    ],
)
def test_a_cron_rule_finds_its_days(rule: str, found: list[str]) -> None:
    assert days(Cron(rule), 2) == found


def test_the_29th_of_february_is_found_across_the_century_without_one() -> None:
    assert days(Cron("0 0 29 2 *"), 1, datetime(2096, 3, 1, tzinfo=UTC)) == ["2104-02-29"]


def test_one_of_several_fires_once_at_one_instant() -> None:
    rule = AnyOf(DailyAt(9), Cron("0 9,10 * * *"))

    assert fires(rule, 3) == ["2026-01-01T09:00:00", "2026-01-01T10:00:00", "2026-01-02T09:00:00"]


def test_dates_are_left_out_as_days_of_the_zone() -> None:
    rule = Except(DailyAt(8), ["2026-01-02"], tz="Asia/Tokyo")

    assert fires(rule, 2) == ["2026-01-02T23:00:00", "2026-01-03T23:00:00"]


def test_years_of_dates_can_be_left_out() -> None:
    dates = [date(2026, 1, 1) + timedelta(days=n) for n in range(4000)]

    assert days(Except(Cron("*/15 * * * *"), dates), 1) == ["2036-12-14"]


def test_a_window_may_go_across_midnight() -> None:
    rule = Between(Cron("0 */3 * * *"), "21:00", "06:00")

    assert [fire[11:13] for fire in fires(rule, 4)] == ["03", "21", "00", "03"]


def test_a_window_in_which_nothing_fires_comes_to_an_end() -> None:
    assert Between(DailyAt(3), "09:00", "17:00").next_after(START) is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: DailyAt(25), "hour is 25; it must be a whole number, 0 to 23"),
        (lambda: DailyAt(9, 60), "minute is 60"),
        (lambda: DailyAt(True), "hour is True"),
        (lambda: DailyAt("9"), "hour is '9'"),  # type: ignore[arg-type]
        (lambda: Monthly(32), "day is 32; it must be 1 to 31, 'last'"),
        (lambda: Monthly("6th tue"), "day is '6th tue'"),
        (lambda: Monthly("last", clamp=True), "clamp is True or False, for days 1 to 31"),
        (lambda: Weekly(8), "day 8 is no day of the week"),
        (lambda: Weekly(()), "it must be a day of the week, or several"),
        (lambda: Every(0), "the period must be more than 0"),
        (lambda: Every(-5), "period is -5; it must be 0 or more"),
        (lambda: Every(60, jitter=60), "jitter must be less than it"),
        (lambda: Every(60, anchor=wall("2026-01-01T00:00")), "anchor is .* it must be an aware datetime"),
        (lambda: Every(60, after="ends"), "unknown after 'ends', did you mean 'end'?"),  # type: ignore[arg-type]
        (lambda: At("tomorrow"), "it must be a datetime"),  # type: ignore[arg-type]
        (AnyOf, "has no schedules"),
        (lambda: AnyOf("0 9 * * *"), "AnyOf takes schedules .* this is of type str"),  # type: ignore[arg-type]
        (lambda: Except(DailyAt(9), []), "give one date or more"),
        (lambda: Except(DailyAt(9), ["2026-02-30"]), "date '2026-02-30' is none"),
        (lambda: Between(DailyAt(9), "9", "25:00"), "is no time of day"),
        (lambda: Between(DailyAt(9), "09:00", "09:00"), "nothing is between"),
        (lambda: DailyAt(9, tz="Berlin"), "unknown time zone 'Berlin', did you mean 'Europe/Berlin'"),
        (lambda: DailyAt(9, tz="Europe/Berln"), "did you mean 'Europe/Berlin'"),
        (lambda: DailyAt(9, tz="../etc/passwd"), "unknown time zone"),
        (lambda: DailyAt(9, tz="Nowhere/At_All_Xyz"), "a zone is named as in"),
        (lambda: DailyAt(9, tz=5), "tz is 5; it must be the name"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_refused_when_it_is_made(make: Any, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        make()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("60 * * * *", "minute '60': 60 is out of range; it can be 0 to 59"),
        ("0 24 * * *", "hour '24': 24 is out of range"),
        ("0 0 0 * *", "day of month '0': 0 is out of range; it can be 1 to 31"),
        ("0 0 32 * *", "day of month '32'"),
        ("0 0 * 13 *", "month '13': 13 is out of range; it can be 1 to 12 or jan, feb"),
        ("0 0 * * 8", "day of week '8'"),
        ("0 0 * * mo", "day of week 'mo': 'mo' is none"),
        ("*/0 * * * *", "the step '0' must be a whole number, 1 or more"),
        ("*/90 * * * *", "a step of 90 does not fit into 0 to 59"),
        ("30-10 * * * *", "the range 30-10 goes backwards; write 30-59,0-10"),
        ("1,,2 * * * *", "a comma with nothing beside it"),
        ("0 0 30 2 *", "day of month '30': never comes in February"),
        ("0 0 31 4,6,9,11 *", "never comes in April, June, September and November"),
        ("0 0 ? * 1", "there is no \\? here; write \\*"),
        ("0 0 L-3 * *", "the last day is L"),
        ("0 0 15W * *", "there is only LW"),
        ("0 0 * * 1#6", "after # comes which one of the month, 1 to 5"),
        ("* * * *", "has 4 fields; it must have 5"),
        ("", "has 0 fields"),
        ("@reboot", "unknown short form; there are @yearly"),
        ("² * * * *", "minute '²': '²' is none"),
    ],
)
def test_an_impossible_cron_rule_names_the_field_and_why(rule: str, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        Cron(rule)


def test_a_question_without_zone_is_refused() -> None:
    for rule in (DailyAt(9), Every(60), At(START), AnyOf(Every(60)), Between(Every(60), "09:00", "10:00")):
        with pytest.raises(BadSetting, match="has no time zone"):
            rule.next_after(wall("2026-01-01T00:00"))


@pytest.mark.parametrize("rule", corpus(), ids=str)
def test_every_rule_can_be_written_down_and_read_back(rule: Schedule) -> None:
    text = msgspec.json.encode(to_dict(rule))

    again = from_dict(msgspec.json.decode(text))

    assert (again, hash(again)) == (rule, hash(rule))
    assert again.describe() == rule.describe() != ""


def test_what_is_written_down_keeps_zones_inside_and_outside() -> None:
    rule = AnyOf(
        At(wall("2026-05-01T09:00"), "Asia/Tokyo"),
        Between(Every(90.5, anchor=ANCHOR, jitter=3, after="end"), time(9), "17:30", tz="Europe/Paris"),
        Except(Monthly(31, 9, clamp=True), [date(2026, 1, 31)]),
        tz="UTC",
    )

    assert from_dict(msgspec.json.decode(msgspec.json.encode(to_dict(rule)))) == rule
    assert to_dict(rule)["v"] == 1


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"kind": "hourly"}, "unknown kind of schedule 'hourly'"),
        ({}, "unknown kind of schedule 'None'"),
        ({"kind": "cron", "expresion": "* * * * *"}, "did you mean 'expression'"),
        ({"kind": "cron"}, "a schedule of kind cron needs expression"),
        ({"kind": "daily", "hour": 25}, "hour is 25"),
        ({"kind": "at", "instant": "soon"}, "instant 'soon' is no instant"),
        ({"kind": "any_of", "schedules": "x"}, "must be a list of schedules"),
        ({"kind": "except", "schedule": "x", "dates": []}, "a schedule is a mapping"),
        ("0 9 * * *", "a schedule is a mapping"),
    ],
)
def test_a_form_that_is_not_understood_is_refused(plain: Any, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        from_dict(plain)


def test_a_newer_form_is_refused() -> None:
    with pytest.raises(StoreTooNew, match="version 2"):
        from_dict({"v": 2, "kind": "daily", "hour": 9})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("0 9 * * 1-5", Cron("0 9 * * 1-5")),
        ("@daily", Cron("@daily")),
        ("every 1h30m", Every(5400)),
        ("daily 9:05", DailyAt(9, 5)),
        ("weekly mon, fri 09:00:30", Weekly((1, 5), 9, 0, 30)),
        ("monthly last 18:00", Monthly("last", 18)),
        ("monthly 15 18:00", Monthly(15, 18)),
        ("monthly 31 clamp 18:00", Monthly(31, 18, clamp=True)),
        ("monthly 2nd tue 18:00", Monthly("2nd tue", 18)),
        ("at 2026-12-01T09:00", At(wall("2026-12-01T09:00"))),
        ("At 2026-12-01 09:00+02:00", At(datetime(2026, 12, 1, 7, tzinfo=UTC))),
    ],
)
def test_a_schedule_is_read_from_a_line(text: str, rule: Schedule) -> None:
    assert read(text) == rule


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Cron("0 9 * * 1-5"), "at 09:00 on Monday to Friday"),
        (Cron("*/15 * * * *"), "every 15 minutes"),
        (Cron("* * * * *"), "every minute"),
        (Cron("0 * * * *"), "minute 0 of every hour"),
        (Cron("*/20 9-17 * * *"), "every 20 minutes of hours 9 to 17"),
        (Cron("0 0 13 * 5"), "at 00:00 on day 13 of the month or on Friday"),
        (Cron("0 0 L 1,7 *"), "at 00:00 on the last day of the month in January and July"),
        (Cron("30 18 * * 5L", tz="UTC"), "at 18:30 on the last Friday of the month (UTC)"),
        (Every(3600, after="end", jitter=60), "1 hour after the end of each run, up to 1 minute later"),
        (At(wall("2026-12-01T09:00"), "Asia/Tokyo"), "once, at 2026-12-01 09:00 (Asia/Tokyo)"),
        (Monthly(1, 9), "every 1st of the month at 09:00"),
    ],
)
def test_a_rule_says_itself_in_words(rule: Schedule, words: str) -> None:
    assert (rule.describe(), str(rule)) == (words, words)


INSTANTS = st.datetimes(wall("1950-01-01T00:00"), wall("2200-01-01T00:00"), timezones=st.just(UTC))
NAMES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza"]
ZONES = st.sampled_from(NAMES)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(corpus()), INSTANTS, ZONES)
def test_an_answer_is_strictly_later_and_nothing_is_between(rule: Schedule, instant: datetime, tz: str) -> None:
    fire = rule.next_after(instant, tz)

    assert fire is not None
    assert fire > instant
    assert rule.next_after(instant + (fire - instant) / 2, tz) == fire
    assert rule.next_after(fire - timedelta(microseconds=1), tz) == fire


class Restless(Zone):
    """A zone in which a change may always be near."""

    def calm(self, at: int) -> int | None:
        return None


RESTLESS = {name: Restless(name, ZoneInfo(name)) for name in NAMES}
WALLS = [rule.walls() for rule in corpus() if isinstance(rule, WallSchedule)]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(WALLS), INSTANTS, st.sampled_from(NAMES[1:]))
def test_the_short_way_on_calm_days_leads_where_the_long_one_does(walls: Walls, instant: datetime, tz: str) -> None:
    at = whole_seconds(instant)

    assert walls.next_after(at, zone(tz)) == walls.next_after(at, RESTLESS[tz])


def test_the_end_of_the_calendar_is_an_end_and_no_crash() -> None:
    late = datetime(9999, 12, 30, tzinfo=UTC)

    for rule in corpus():
        assert rule.next_after(late, "Pacific/Kiritimati") is None


def test_the_beginning_of_the_calendar_is_no_crash() -> None:
    early = datetime(1, 1, 1, tzinfo=UTC)

    for rule in corpus()[::7]:
        assert rule.next_after(early, "America/New_York") is not None
