"""Which days of a month a rule selects: bits 1 to 31 of a number, so a few operations decide a whole month.

Days of the week are 0 (Monday) to 6 (Sunday) here. What people write is translated before.
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
# The calendar, weekdays included, repeats after so many years.
CYCLE = 400
_EVERY_SEVENTH = sum(1 << day for day in range(0, 36, 7))

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


class Days(Protocol):
    """A rule of days. It is a value, so it can be a key."""

    def __hash__(self) -> int: ...

    def of(self, year: int, month: int) -> int:
        """Return the days of that month that the rule selects, as bits."""


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
    """Return the same for an endless month that begins with weekday `first`."""
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
    """Every day of the given weekdays."""

    days: tuple[int, ...]

    def of(self, year: int, month: int) -> int:
        return weekdays(year, month, *self.days)


@dataclass(frozen=True, slots=True)
class MonthDay:
    """One day of each month by number, or `LAST`. In a month without it there is none, or its last day (`clamp`)."""

    day: int
    clamp: bool = False

    def of(self, year: int, month: int) -> int:
        last = length(year, month)
        if self.day == LAST or (self.clamp and self.day > last):
            return 1 << last
        return 1 << self.day if self.day <= last else 0


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The nth of a weekday in each month, or `LAST`. In a month without it there is none."""

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
