"""The base of every schedule: a pure rule of when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from laneway.core.common.instants import EPOCH
from laneway.core.schedules.calendar.zones import EARLIEST, LATEST, Zone, zone
from laneway.errors import BadSetting

SECOND = timedelta(seconds=1)
MICRO = timedelta(microseconds=1)


class Schedule(ABC):
    """A rule of when. It keeps no state: it can be evaluated twice, or for last year.

    `tz` names its time zone. With None the caller passes `tz`; a caller that passes none gets UTC. Schedules with the
    same values are equal, and can be keys of a dict.
    """

    __slots__ = ()

    tz: str | None

    @abstractmethod
    def next_after(self, instant: datetime, tz: str | None = None) -> datetime | None:
        """Return the first fire strictly later than `instant` (aware), in UTC; None if there is none."""

    def following(self, at: int, tz: str | None = None) -> int | None:
        """Return the same in microseconds since 1970: the first fire later than `at`."""
        fire = self.next_after(EPOCH + at * MICRO, tz)
        return None if fire is None else (fire - EPOCH) // MICRO

    @abstractmethod
    def describe(self) -> str:
        """Return the rule in words."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values, without version and time zone: see `laneway.core.schedules.form`."""

    def spread(self, nominal: datetime, key: str) -> datetime:
        """Return when the fire of the nominal time is due: later by the jitter, a function of `key` and that time."""
        return nominal

    def fires(self, after: datetime, tz: str | None = None) -> Iterator[datetime]:
        """Yield the fires later than `after`, in order."""
        fire = self.next_after(after, tz)
        while fire is not None:
            yield fire
            fire = self.next_after(fire, tz)

    def zone(self, tz: str | None) -> Zone:
        """Return the time zone that it uses when it is called with `tz`."""
        return zone(self.tz or tz or "UTC")

    def __str__(self) -> str:
        return self.describe()


def aware(instant: datetime) -> datetime:
    """Return an instant that has a time zone. Raises BadSetting for one without."""
    if instant.tzinfo is None:
        raise BadSetting(f"the instant {instant.isoformat()} has no time zone; give an aware datetime")
    return instant


def whole_seconds(instant: datetime) -> int:
    """Return an instant as seconds since 1970 without the fraction. Comparisons of "later than" stay right."""
    return min(max((aware(instant) - EPOCH) // SECOND, EARLIEST), LATEST)


def at_second(at: int | None) -> datetime | None:
    """Return seconds since 1970 as an instant."""
    return None if at is None else EPOCH + timedelta(seconds=at)


def in_zone(words: str, tz: str | None) -> str:
    """Return a description with its time zone, if there is one."""
    return f"{words} ({tz})" if tz else words


def checked_number(value: object, what: str, least: int, most: int) -> int:
    """Return a whole number within its bounds. Raises BadSetting.

    >>> checked_number(25, "hour", 0, 23)
    Traceback (most recent call last):
    laneway.errors.BadSetting: hour is 25; it must be a whole number, 0 to 23
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadSetting(f"{what} is {value!r}; it must be a whole number, {least} to {most}")
    return value


def checked_schedule(given: object, whose: str) -> Schedule:
    """Return a schedule. Raises BadSetting for anything else."""
    if not isinstance(given, Schedule):
        kind = type(given).__name__
        raise BadSetting(f"{whose} takes schedules such as DailyAt(9), Cron('0 9 * * *'); this is of type {kind}")
    return given
