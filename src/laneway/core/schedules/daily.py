"""Fixed-time rules of days at one time of day; daily and weekly ones are here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from laneway.core.schedules.base import Schedule, at_second, checked_number, in_zone, whole_seconds
from laneway.core.schedules.calendar.days import (
    WEEKDAYS,
    AllDays,
    Days,
    Weekdays,
    weekday_of,
)
from laneway.core.schedules.calendar.walls import Walls
from laneway.core.schedules.calendar.zones import checked_zone
from laneway.core.schedules.phrases import clock, listed, weekday_name
from laneway.errors import BadSetting


class WallSchedule(Schedule):
    """A schedule of wall-clock times."""

    __slots__ = ()

    @abstractmethod
    def walls(self) -> Walls:
        """Return the wall-clock times at which it fires."""

    def next_after(self, instant: datetime, tz: str | None = None) -> datetime | None:
        """Return the first fire strictly later than `instant`, in UTC."""
        return at_second(self.walls().next_after(whole_seconds(instant), self.zone(tz)))


class TimeOfDay(WallSchedule):
    """Some days, at `hour`, `minute` and `second`."""

    __slots__ = ()

    hour: int
    minute: int
    second: int

    @abstractmethod
    def days(self) -> Days:
        """Return the days on which it fires."""

    def walls(self) -> Walls:
        """Return the wall-clock times at which it fires."""
        return _walls(self.hour, self.minute, self.second, self.days())

    def _check(self) -> None:
        checked_number(self.hour, "hour", 0, 23)
        checked_number(self.minute, "minute", 0, 59)
        checked_number(self.second, "second", 0, 59)
        checked_zone(self.tz)

    def _at(self, words: str) -> str:
        return in_zone(f"{words} at {clock(self.hour, self.minute, self.second)}", self.tz)

    def _time(self) -> dict[str, Any]:
        return {"hour": self.hour, "minute": self.minute, "second": self.second}


@lru_cache(maxsize=4096)
def _walls(hour: int, minute: int, second: int, days: Days) -> Walls:
    return Walls(1 << hour, 1 << minute, 1 << second, days=days)


@dataclass(frozen=True, slots=True)
class DailyAt(TimeOfDay):
    """Every day at a time of day.

    >>> from datetime import UTC
    >>> rule = DailyAt(9, 30, tz="Europe/Berlin")
    >>> rule.describe(), rule.next_after(datetime(2026, 7, 1, tzinfo=UTC)).isoformat()
    ('every day at 09:30 (Europe/Berlin)', '2026-07-01T07:30:00+00:00')
    """

    hour: int
    minute: int = 0
    second: int = 0
    tz: str | None = None

    def __post_init__(self) -> None:
        self._check()

    def days(self) -> Days:
        """Return every day."""
        return AllDays()

    def describe(self) -> str:
        """Return the rule in words."""
        return self._at("every day")

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        return {"kind": "daily", **self._time()}


@dataclass(frozen=True, slots=True)
class Weekly(TimeOfDay):
    """One or more days of the week, by name or ISO number 1 (Monday) to 7, at a time of day.

    >>> Weekly(["fri", 1], 9).describe()
    'every Monday and Friday at 09:00'
    """

    day: str | int | tuple[str | int, ...] | list[str | int]
    hour: int = 0
    minute: int = 0
    second: int = 0
    tz: str | None = None

    def __post_init__(self) -> None:
        given = [self.day] if isinstance(self.day, (str, int)) else self.day
        if not isinstance(given, Iterable) or not (days := sorted({weekday_of(day) + 1 for day in given})):
            raise BadSetting(f"day is {self.day!r}; it must be a day of the week, or several")
        # The same days are equal, however they are written.
        object.__setattr__(self, "day", days[0] if len(days) == 1 else tuple(days))
        self._check()

    def days(self) -> Days:
        """Return the days of the week."""
        return Weekdays(tuple(number - 1 for number in self._numbers()))

    def _numbers(self) -> tuple[int, ...]:
        day: Any = self.day
        return day if isinstance(day, tuple) else (day,)

    def describe(self) -> str:
        """Return the rule in words."""
        return self._at(f"every {listed([weekday_name(number - 1) for number in self._numbers()])}")

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        names = [WEEKDAYS[number - 1][:3] for number in self._numbers()]
        return {"kind": "weekly", "day": names if len(names) > 1 else names[0], **self._time()}
