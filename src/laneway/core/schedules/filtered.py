"""Filters of another schedule by local time: not on some dates, only between two times of day."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as day_time
from typing import Any

from laneway.core.common.instants import EPOCH
from laneway.core.schedules.base import MICRO, Schedule, checked_schedule, in_zone, whole_seconds
from laneway.core.schedules.calendar.walls import Walls
from laneway.core.schedules.calendar.zones import DAY, Zone, checked_zone
from laneway.core.schedules.phrases import clock, listed
from laneway.errors import BadSetting

# The search for a fire inside a window that none falls into would not end. After so many tries the rule has ended.
PATIENCE = 1_500
SHOWN = 8  # a description lists so many dates
_MIDNIGHT = Walls(fixed=False)


class Filtered(Schedule):
    """The fires of another schedule that pass a filter on local time."""

    __slots__ = ()

    schedule: Schedule

    @abstractmethod
    def lets_through(self, wall: int) -> bool:
        """Tell whether a fire at this wall-clock time passes."""

    @abstractmethod
    def edges(self) -> Walls:
        """Return the wall-clock times at which the answer may change."""

    @abstractmethod
    def patience(self) -> int:
        """Return after how many fires that do not pass the search ends."""

    def next_after(self, instant: datetime, tz: str | None = None) -> datetime | None:
        """Return the other schedule's first fire strictly later than `instant` that passes."""
        zone = self.zone(tz)
        for _ in range(self.patience()):
            fire = self.schedule.next_after(instant, self.tz or tz)
            if fire is None:
                return None
            at = whole_seconds(fire)
            if self.lets_through(at + zone.offset(at)):
                return fire
            edge = self._next_edge(at, zone)
            if edge is None:
                return None
            instant = EPOCH + timedelta(seconds=edge) - MICRO
        return None

    def spread(self, nominal: datetime, key: str) -> datetime:
        """Return when the fire of the nominal time is due."""
        return self.schedule.spread(nominal, key)

    def _next_edge(self, at: int, zone: Zone) -> int | None:
        """Return when the answer may change next: at an edge, and whenever clocks change."""
        edge = self.edges().next_after(at, zone)
        changes = zone.changes(at, edge) if edge is not None else []
        return changes[0].at if changes else edge

    def _check(self) -> None:
        checked_schedule(self.schedule, type(self).__name__)
        checked_zone(self.tz)


@dataclass(frozen=True, slots=True)
class Except(Filtered):
    """Another schedule without some dates; a date is a day in the time zone.

    >>> from laneway.core.schedules.daily import DailyAt
    >>> Except(DailyAt(9), ["2026-12-25", date(2026, 12, 26)]).describe()
    'every day at 09:00, except on 2026-12-25 and 2026-12-26'
    """

    schedule: Schedule
    dates: Iterable[date | str]
    tz: str | None = None

    def __post_init__(self) -> None:
        given = [self.dates] if isinstance(self.dates, (str, date)) else self.dates
        if not isinstance(given, Iterable) or not (dates := tuple(sorted({_date(one) for one in given}))):
            raise BadSetting(f"Except(dates={self.dates!r}): give one date or more")
        object.__setattr__(self, "dates", dates)
        self._check()

    def lets_through(self, wall: int) -> bool:
        """Tell whether that day is none of the dates."""
        day, dates = date(1970, 1, 1) + timedelta(days=wall // DAY), self._dates()
        place = bisect_left(dates, day)
        return place == len(dates) or dates[place] != day

    def edges(self) -> Walls:
        """Return midnight."""
        return _MIDNIGHT

    def patience(self) -> int:
        """Return more than there are dates: each fire that does not pass is on one of them, and leads to an edge."""
        return 4 * len(self._dates()) + 4

    def _dates(self) -> tuple[date, ...]:
        assert isinstance(self.dates, tuple)
        return self.dates

    def describe(self) -> str:
        """Return the rule in words."""
        dates = [day.isoformat() for day in self._dates()]
        if len(dates) > SHOWN:
            dates[SHOWN - 1 :] = [f"{len(dates) - SHOWN + 1} other dates"]
        return in_zone(f"{self.schedule.describe()}, except on {listed(dates)}", self.tz)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        dates = [day.isoformat() for day in self._dates()]
        return {"kind": "except", "schedule": self.schedule, "dates": dates}


@dataclass(frozen=True, slots=True)
class Between(Filtered):
    """Another schedule, only from `start` until before `end`, local time; across midnight if `end` is earlier.

    >>> from laneway.core.schedules.at_every import Every
    >>> Between(Every(1800), "22:00", "06:00", tz="Asia/Tokyo").describe()
    'every 30 minutes, only from 22:00 until 06:00 of the next day (Asia/Tokyo)'
    """

    schedule: Schedule
    start: str | day_time
    end: str | day_time
    tz: str | None = None

    def __post_init__(self) -> None:
        start, end = _time(self.start, "start"), _time(self.end, "end")
        if start == end:
            raise BadSetting(f"Between(start={self.start!r}, end={self.end!r}): they are the same; nothing is between")
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "end", end)
        self._check()

    def lets_through(self, wall: int) -> bool:
        """Tell whether that time of day is in between."""
        start, end = _second_of(self.start), _second_of(self.end)
        shown = wall % DAY
        return start <= shown < end if start < end else shown >= start or shown < end

    def edges(self) -> Walls:
        """Return the time at which the window opens."""
        start = _time(self.start, "start")
        return Walls(1 << start.hour, 1 << start.minute, 1 << start.second, fixed=False)

    def patience(self) -> int:
        """Return as many days as some years have."""
        return PATIENCE

    def describe(self) -> str:
        """Return the rule in words."""
        start, end = _time(self.start, "start"), _time(self.end, "end")
        times = f"{clock(start.hour, start.minute, start.second)} until {clock(end.hour, end.minute, end.second)}"
        later = " of the next day" if end < start else ""
        return in_zone(f"{self.schedule.describe()}, only from {times}{later}", self.tz)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        return {"kind": "between", "schedule": self.schedule, "start": str(self.start), "end": str(self.end)}


def _date(given: object) -> date:
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    try:
        return date.fromisoformat(str(given))
    except ValueError:
        raise BadSetting(f"date {given!r} is none; write it as 2026-12-25, or give a date") from None


def _time(given: object, what: str) -> day_time:
    try:
        found = given if isinstance(given, day_time) else day_time.fromisoformat(str(given))
    except ValueError:
        raise BadSetting(f"{what} {given!r} is no time of day; write it as 09:00, or give a time") from None
    if found.tzinfo is not None or found.microsecond:
        raise BadSetting(f"{what} {given!r} must be a time of day in whole seconds; the zone is tz")
    return found


def _second_of(given: object) -> int:
    found = _time(given, "time")
    return found.hour * 3600 + found.minute * 60 + found.second
