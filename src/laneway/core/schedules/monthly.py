"""A day of each month at a time of day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laneway.core.schedules.calendar.days import LAST, WEEKDAYS, Days, MonthDay, NthWeekday, weekday_of
from laneway.core.schedules.daily import TimeOfDay
from laneway.core.schedules.phrases import ordinal, weekday_name
from laneway.errors import BadSetting

_PLACES = {
    "1st": 1,
    "2nd": 2,
    "3rd": 3,
    "4th": 4,
    "5th": 5,
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "fifth": 5,
    "last": LAST,
}


@dataclass(frozen=True, slots=True)
class Monthly(TimeOfDay):
    """A day of each month at a time of day: 1 to 31, `"last"`, or a weekday as in `"2nd tue"` and `"last fri"`.

    A month without that day is skipped; with `clamp=True` its last day counts instead.

    >>> Monthly("last fri", 18).describe(), Monthly(31, 9, clamp=True).describe()
    ('every last Friday of the month at 18:00', 'every 31st (else last day) of the month at 09:00')
    """

    day: int | str
    hour: int = 0
    minute: int = 0
    second: int = 0
    clamp: bool = False
    tz: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "day", _checked_day(self.day))
        if not isinstance(self.clamp, bool) or (self.clamp and not isinstance(self.day, int)):
            raise BadSetting(f"Monthly({self.day!r}, clamp={self.clamp!r}): clamp is True or False, for days 1 to 31")
        self._check()

    def days(self) -> Days:
        """Return the day of each month."""
        return _days(self.day, self.clamp)

    def describe(self) -> str:
        """Return the rule in words."""
        if isinstance(self.day, int):
            words = ordinal(self.day) + (" (else last day)" if self.clamp else "")
        elif self.day == "last":
            words = "last day"
        else:
            place, _, name = self.day.partition(" ")
            words = f"{place} {weekday_name(weekday_of(name))}"
        return self._at(f"every {words} of the month")

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        return {"kind": "monthly", "day": self.day, **self._time(), **({"clamp": True} if self.clamp else {})}


def _days(day: int | str, clamp: bool) -> Days:
    if isinstance(day, int):
        return MonthDay(day, clamp)
    place, _, name = day.partition(" ")
    return NthWeekday(weekday_of(name), _PLACES[place]) if name else MonthDay(LAST)


def _checked_day(day: object) -> int | str:
    """Return a day of the month in its normal form. Raises BadSetting."""
    if isinstance(day, int) and not isinstance(day, bool) and 1 <= day <= 31:
        return day
    if isinstance(day, str):
        place, *name = day.lower().split()[:3] or [""]
        if place == "last" and not name:
            return "last"
        if place in _PLACES and len(name) == 1:
            return f"{ordinal(_PLACES[place])} {WEEKDAYS[weekday_of(name[0])][:3]}"
    raise BadSetting(f"day is {day!r}; it must be 1 to 31, 'last', or a weekday as in '2nd tue' or 'last fri'")
