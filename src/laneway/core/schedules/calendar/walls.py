"""Rules of wall-clock time, and when they fire through gaps and folds.

A *wall* is a wall-clock time, as seconds (see `zones`). A *fixed-time* rule names times of day. A time in a gap fires
at the first instant after the gap, and several of them fire once. A time that comes twice fires the first time. All
other rules go by elapsed time: a time in a gap fires as if the clock had not changed, and a time that comes twice fires
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from laneway.core.schedules.calendar.days import EVERY_MONTH, AllDays, Days
from laneway.core.schedules.calendar.zones import DAY, LATEST, REACH, Zone

_FIRST_DAY = date(1970, 1, 1).toordinal()
_LAST_YEAR = 9998
EVERY_DAY = AllDays()
EVERY_SECOND = EVERY_MINUTE = (1 << 60) - 1
EVERY_HOUR = (1 << 24) - 1


def _from(bits: int, least: int) -> int:
    """Return the smallest set bit that is `least` or more, -1 if there is none."""
    rest = bits >> least
    return least + (rest & -rest).bit_length() - 1 if rest else -1


@dataclass(frozen=True, slots=True)
class Walls:
    """Wall-clock times as bits of seconds, minutes, hours and months, and a rule of days; `fixed` if fixed-time."""

    hours: int = 1
    minutes: int = 1
    seconds: int = 1
    months: int = EVERY_MONTH
    days: Days = EVERY_DAY
    fixed: bool = True

    def next_after(self, at: int, zone: Zone) -> int | None:
        """Return the first fire later than `at`, None if there is none before the year 9999."""
        if at >= LATEST:
            return None
        found = self._calm_after(at, zone)
        if found is not None:
            return found
        found = self._fixed_after(at, zone) if self.fixed else self._elapsed_after(at, zone)
        return found if found is not None and found < LATEST else None

    def fits(self, wall: int) -> bool:
        """Tell whether a wall is one of these."""
        return self.first(wall) == wall

    def first(self, wall: int) -> int | None:
        """Return the first of these walls that is `wall` or later."""
        day, time = divmod(wall, DAY)
        found = self._day_from(day)
        if found == day:
            second = self._time_from(time)
            if second is not None:
                return day * DAY + second
            found = self._day_from(day + 1)
        if found is None:
            return None
        start = self._time_from(0)
        assert start is not None
        return found * DAY + start

    def _calm_after(self, at: int, zone: Zone) -> int | None:
        """Return the next fire if no change of clocks is near `at` or near it, as on most days, else None."""
        offset = zone.calm(at)
        if offset is None:
            return None
        wall = self.first(at + 1 + offset)
        if wall is None or wall - offset >= LATEST:
            return None
        if wall - offset <= at + REACH:
            return wall - offset
        # A change in between may repeat walls. Only fixed-time rules ignore that.
        later = zone.calm(wall - offset) if self.fixed else None
        return None if later is None else wall - later

    def _fixed_after(self, at: int, zone: Zone) -> int | None:
        start = at + zone.offset(at) + 1
        for change in zone.changes(at - REACH, at):
            if not change.is_gap and start <= change.end_wall:
                start = change.end_wall  # these come for the second time
        wall = self.first(start)
        return None if wall is None else zone.instant(wall)

    def _elapsed_after(self, at: int, zone: Zone) -> int | None:
        while at < LATEST:
            until = at + REACH
            found = [fire for piece in _pieces(zone, at, until) if (fire := self._in(*piece)) is not None]
            if found:
                return min(found)
            # A fold may repeat walls, so the search begins before those that were checked.
            wall = self.first(until - REACH)
            if wall is None:
                break
            at = max(until, wall - REACH)
        return None

    def _in(self, start: int, end: int, offset: int) -> int | None:
        wall = self.first(start)
        return wall - offset if wall is not None and wall < end else None

    def _day_from(self, day: int) -> int | None:
        on = date.fromordinal(day + _FIRST_DAY)
        year, month, least = on.year, on.month, on.day
        while year <= _LAST_YEAR:
            if self.months >> month & 1:
                found = _from(self.days.of(year, month), least)
                if found > 0:
                    return date(year, month, found).toordinal() - _FIRST_DAY
            least = 1
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return None

    def _time_from(self, time: int) -> int | None:
        """Return the first second of a day that fits and is `time` or later."""
        hour, minute, second = time // 3600, time // 60 % 60, time % 60
        found = _from(self.hours, hour)
        if found == hour:
            at = _from(self.minutes, minute)
            if at == minute:
                exact = _from(self.seconds, second)
                if exact >= 0:
                    return hour * 3600 + minute * 60 + exact
                at = _from(self.minutes, minute + 1)
            if at >= 0:
                return hour * 3600 + at * 60 + _from(self.seconds, 0)
            found = _from(self.hours, hour + 1)
        if found < 0:
            return None
        return found * 3600 + _from(self.minutes, 0) * 60 + _from(self.seconds, 0)


def _pieces(zone: Zone, at: int, until: int) -> Iterator[tuple[int, int, int]]:
    """Cut the time after `at`, up to and including `until`, into stretches of walls, each with its offset.

    After a gap come two stretches: the walls that exist, and those left out, with the offset before the gap.
    """
    offset, start = zone.offset(at), at + 1
    for change in zone.changes(at - REACH, until):
        if change.at > at:
            yield start + offset, change.at + offset, offset
            offset, start = change.after, change.at
        if change.is_gap:
            left_out = min(change.end_wall, until + 1 + change.before)
            yield max(at + 1 + change.before, change.first_wall), left_out, change.before
    yield start + offset, until + 1 + offset, offset
