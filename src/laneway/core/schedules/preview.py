"""The next fires of a schedule, for people: the instant, the local time, and what is special about it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from laneway.core.schedules.base import Schedule
from laneway.core.schedules.notes import Note, note


class Preview(NamedTuple):
    """One future fire: `at` is in UTC, `local` is the local time in the schedule's zone."""

    at: datetime
    local: datetime
    note: Note | None = None


def preview(rule: Schedule, after: datetime, tz: str | None, count: int) -> list[Preview]:
    """Return the first `count` fires later than `after`, fewer if there are no more.

    >>> from datetime import UTC
    >>> from laneway.core.schedules.daily import DailyAt
    >>> [one] = preview(DailyAt(9), datetime(2026, 7, 1, tzinfo=UTC), "Europe/Berlin", 1)
    >>> one.at.isoformat(), one.local.isoformat()
    ('2026-07-01T07:00:00+00:00', '2026-07-01T09:00:00+02:00')
    """
    return shown(rule, islice(rule.fires(after, tz), count), tz)


def shown(rule: Schedule, fires: Iterable[datetime], tz: str | None) -> list[Preview]:
    """Return these fires of a schedule as people see them."""
    zone = rule.zone(tz)
    return [Preview(fire, zone.local(fire), note(rule, fire, tz)) for fire in fires]
