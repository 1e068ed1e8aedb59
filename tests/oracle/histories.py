"""Every change of every zone's clock from 1990 to 2037, found by walking; zones with equal histories count once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

FIRST, LAST = datetime(1990, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@dataclass(frozen=True)
class Changed:
    """The first minute that shows the new offset, and by how much the clock was moved."""

    zone: str
    at: datetime
    by: timedelta
    before: timedelta

    @property
    def shape(self) -> tuple[datetime, timedelta, timedelta]:
        """All that the days around it depend on."""
        return self.at, self.by, self.before


def offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    found = instant.astimezone(zone).utcoffset()
    assert found is not None
    return found


def walk(zone: ZoneInfo) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    """Go day by day; where two days differ, find the minute. No clock changes twice within days."""
    day = FIRST
    before = offset(day, zone)
    while day < LAST:
        after = offset(day + DAY, zone)
        if after != before:
            low, high = day, day + DAY
            while high - low > MINUTE:
                middle = low + (high - low) // MINUTE // 2 * MINUTE
                low, high = (middle, high) if offset(middle, zone) == before else (low, middle)
            yield high, before, after
        day, before = day + DAY, after


@cache
def changes_of(name: str) -> tuple[Changed, ...]:
    """Return the changes of one zone."""
    return tuple(Changed(name, at, after - before, before) for at, before, after in walk(ZoneInfo(name)))


@cache
def histories() -> dict[str, tuple[Changed, ...]]:
    """Return the changes of one zone, by name, for each of the histories that differ."""
    found: dict[object, str] = {}
    for name in sorted(available_timezones()):
        shape = tuple((change.at, change.by) for change in changes_of(name))
        found.setdefault((offset(FIRST, ZoneInfo(name)), shape), name)
    return {name: changes_of(name) for name in found.values()}
