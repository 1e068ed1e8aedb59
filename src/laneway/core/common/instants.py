"""Instants and durations: aware datetimes and timedeltas outside, whole microseconds inside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from laneway.errors import BadSetting

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
SECOND = 1_000_000
# Twenty years. Longer durations are always a mistaken unit.
LONGEST = 20 * 366 * 86_400 * SECOND


def micros(instant: datetime) -> int:
    """Return an aware datetime as microseconds since 1970.

    >>> micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if instant.tzinfo is None:
        raise BadSetting(f"the instant {instant.isoformat()} has no time zone; give an aware datetime")
    return (instant - EPOCH) // MICRO


def instant(micros: int) -> datetime:
    """Return microseconds since 1970 as an aware UTC datetime.

    >>> instant(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return EPOCH + timedelta(microseconds=micros)


def duration(value: timedelta | float, name: str) -> int:
    """Return a timedelta or a number of seconds as microseconds. Raises BadSetting for a negative or too long one.

    >>> duration(1.5, "delay")
    1500000
    >>> duration(-1, "delay")
    Traceback (most recent call last):
    laneway.errors.BadSetting: delay is -1; it must be 0 or more (seconds or a timedelta)
    """
    if isinstance(value, timedelta):
        length = value // MICRO
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if not -LONGEST < value < LONGEST:  # also False for nan
            raise BadSetting(f"{name} is {value}; it must be a finite number of seconds")
        length = round(value * SECOND)
    else:
        raise BadSetting(f"{name} is {value!r}; it must be seconds or a timedelta")
    if length < 0:
        raise BadSetting(f"{name} is {value}; it must be 0 or more (seconds or a timedelta)")
    if length > LONGEST:
        raise BadSetting(f"{name} is {value}; the longest is 20 years")
    return length
