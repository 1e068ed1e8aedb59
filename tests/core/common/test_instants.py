"""Instants and durations."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.common.instants import LONGEST, SECOND, duration, instant, micros
from laneway.errors import BadSetting


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_an_instant_comes_back_to_the_microsecond(at: datetime) -> None:
    assert instant(micros(at)) == at


def test_instants_of_other_zones_are_the_same_instant() -> None:
    tokyo = timezone(timedelta(hours=9))

    assert micros(datetime(2026, 1, 1, 9, tzinfo=tokyo)) == micros(datetime(2026, 1, 1, tzinfo=UTC))


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(BadSetting, match="the instant 2026-01-01T00:00:00 has no time zone"):
        micros(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point


@given(st.integers(0, LONGEST))
def test_a_duration_is_the_same_as_seconds_and_as_timedelta(length: int) -> None:
    delta = timedelta(microseconds=length)

    assert duration(delta, "delay") == length
    assert abs(duration(delta.total_seconds(), "delay") - length) <= 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (-1, "delay is -1; it must be 0 or more"),
        (timedelta(seconds=-1), "delay is -1 day, 23:59:59; it must be 0 or more"),
        (float("nan"), "delay is nan; it must be a finite number of seconds"),
        (float("inf"), "delay is inf; it must be a finite number of seconds"),
        (10**30, "it must be a finite number of seconds"),
        (21 * 366 * 86_400, "the longest is 20 years"),
        (timedelta(days=9000), "the longest is 20 years"),
        ("5", "delay is '5'; it must be seconds or a timedelta"),
        (None, "delay is None; it must be seconds or a timedelta"),
        (True, "delay is True; it must be seconds or a timedelta"),
    ],
    ids=repr,
)
def test_what_is_no_duration_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        duration(wrong, "delay")


def test_a_second_has_a_million_microseconds() -> None:
    assert duration(1, "delay") == SECOND == 1_000_000
