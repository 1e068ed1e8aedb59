"""Which days of a month: bits 1 to 31 of a number, so that a month is decided by a few operations.

Days of the week count from Monday 0 to Sunday 6 here; what people write is translated before.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Protocol

from laneway.errors import BadSetting

EVERY_MONTH = (1 << 13) - 2
LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
LAST = -1
# The calendar repeats itself after so many years, weekdays included.
CYCLE = 400
_EVERY_SEVENTH = sum(1 << day for day in range(0, 36, 7))

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


class Days(Protocol):
    """A rule of days; a value, so that it can be a key."""

    def __hash__(self) -> int: ...

    def of(self, year: int, month: int) -> int:
        """Return the days of that month that fit, as bits."""


def length(year: int, month: int) -> int:
    """Return how many days a month has.

    >>> length(2024, 2), length(2100, 2)
    (29, 28)
    """
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return LENGTHS[month] + leap


def weekdays(year: int, month: int, *wanted: int) -> int:
    """Return the days of a month that are certain days of the week, as bits.

    >>> [day for day in range(32) if weekdays(2026, 11, 0, 6) >> day & 1]
    [1, 2, 8, 9, 15, 16, 22, 23, 29, 30]
    """
    return _weeks(date(year, month, 1).weekday(), wanted) & ((2 << length(year, month)) - 1)


@lru_cache(maxsize=1024)
def _weeks(first: int, wanted: tuple[int, ...]) -> int:
    """Return the same for a month that begins with `first` and does not end."""
    return sum(_EVERY_SEVENTH << (1 + (day - first) % 7) for day in wanted)


def nth_weekday(year: int, month: int, weekday: int, nth: int) -> int:
    """Return the nth day of that name in a month, or the last one, as a bit; 0 if there is none."""
    found = weekdays(year, month, weekday)
    if nth == LAST:
        return 1 << (found.bit_length() - 1)
    for _ in range(nth - 1):
        found &= found - 1
    return found & -found


@dataclass(frozen=True, slots=True)
class AllDays:
    """Every day."""

    def of(self, year: int, month: int) -> int:
        return (2 << length(year, month)) - 2


@dataclass(frozen=True, slots=True)
class Weekdays:
    """Every day of the names given."""

    days: tuple[int, ...]

    def of(self, year: int, month: int) -> int:
        return weekdays(year, month, *self.days)


@dataclass(frozen=True, slots=True)
class MonthDay:
    """One day of each month by its number, or its `LAST`; a month without it has none, or its last (`clamp`)."""

    day: int
    clamp: bool = False

    def of(self, year: int, month: int) -> int:
        last = length(year, month)
        if self.day == LAST or (self.clamp and self.day > last):
            return 1 << last
        return 1 << self.day if self.day <= last else 0


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The nth day of a name in each month, `LAST` for the last; months without it have none."""

    weekday: int
    nth: int

    def of(self, year: int, month: int) -> int:
        return nth_weekday(year, month, self.weekday, self.nth)


def weekday_of(given: object) -> int:
    """Return a day of the week, Monday 0, from its name or its ISO number 1 to 7.

    >>> weekday_of("Mon"), weekday_of("sunday"), weekday_of(7)
    (0, 6, 6)
    >>> weekday_of("mo")
    Traceback (most recent call last):
    laneway.errors.BadSetting: day 'mo' is no day of the week; it is a name (mon, monday, ... sun) or 1 (Monday) to 7
    """
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 7:
        return given - 1
    if isinstance(given, str):
        for number, name in enumerate(WEEKDAYS):
            if given.strip().lower() in (name, name[:3], str(number + 1)):
                return number
    raise BadSetting(f"day {given!r} is no day of the week; it is a name (mon, monday, ... sun) or 1 (Monday) to 7")
