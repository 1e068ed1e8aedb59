"""Words for descriptions of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from laneway.core.schedules.calendar.days import LAST, WEEKDAYS

_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def clock(hour: int, minute: int, second: int = 0) -> str:
    """Return a time of day.

    >>> clock(9, 5), clock(23, 59, 59)
    ('09:05', '23:59:59')
    """
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def listed(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def ordinal(number: int) -> str:
    """Return a number as an ordinal; `LAST` as "last".

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 21, 31, LAST)]
    ['1st', '2nd', '3rd', '4th', '11th', '21st', '31st', 'last']
    """
    if number == LAST:
        return "last"
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def weekday_name(day: int) -> str:
    """Return the name of a day of the week, Monday 0."""
    return WEEKDAYS[day].capitalize()


def length_of_time(period: timedelta, *, bare: bool = True) -> str:
    """Return a duration in words; `bare` leaves out a single 1, as in "every hour".

    >>> length_of_time(timedelta(hours=1, minutes=30)), length_of_time(timedelta(minutes=1))
    ('1 hour and 30 minutes', 'minute')
    >>> length_of_time(timedelta(seconds=2.5))
    '2.5 seconds'
    """
    left, parts = period.total_seconds(), []
    for unit, size in _UNITS:
        count = left // size if unit != "second" else left
        left -= count * size
        if count:
            parts.append((f"{count:g}", unit if count == 1 else f"{unit}s"))
    if bare and len(parts) == 1 and parts[0][0] == "1":
        return parts[0][1]
    return listed([" ".join(part) for part in parts])
