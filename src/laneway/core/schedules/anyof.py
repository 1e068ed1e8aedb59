"""A schedule that combines several: it fires when any of them does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from laneway.core.schedules.base import MICRO, Schedule, checked_schedule, in_zone
from laneway.core.schedules.calendar.zones import checked_zone
from laneway.errors import BadSetting


@dataclass(frozen=True, slots=True, init=False)
class AnyOf(Schedule):
    """Fires whenever one of several schedules does, once per instant. Its `tz` holds for those without one.

    >>> from laneway.core.schedules.daily import DailyAt, Weekly
    >>> AnyOf(DailyAt(9), Weekly("sun", 20)).describe()
    'every day at 09:00; or every Sunday at 20:00'
    """

    schedules: tuple[Schedule, ...]
    tz: str | None

    def __init__(self, *schedules: Schedule, tz: str | None = None) -> None:
        if not schedules:
            raise BadSetting("AnyOf() has no schedules; give one or more")
        object.__setattr__(self, "schedules", tuple(checked_schedule(one, "AnyOf") for one in schedules))
        object.__setattr__(self, "tz", checked_zone(tz))

    def next_after(self, instant: datetime, tz: str | None = None) -> datetime | None:
        """Return the earliest of their next fires."""
        found = [one.next_after(instant, self.tz or tz) for one in self.schedules]
        return min((fire for fire in found if fire is not None), default=None)

    def spread(self, nominal: datetime, key: str) -> datetime:
        """Return the earliest time, with jitter, of the schedules that fire then."""
        return min(one.spread(nominal, key) for one in self.firing(nominal, None))

    def firing(self, fire: datetime, tz: str | None) -> list[Schedule]:
        """Return the schedules that fire at that instant; all of them if none does."""
        found = [one for one in self.schedules if one.next_after(fire - MICRO, self.tz or tz) == fire]
        return found or list(self.schedules)

    def describe(self) -> str:
        """Return the rules in words."""
        return in_zone("; or ".join(one.describe() for one in self.schedules), self.tz)

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as plain values."""
        return {"kind": "any_of", "schedules": list(self.schedules)}
