"""Rules without a calendar: one instant, and a period that counts from an anchor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from laneway.core.common.instants import EPOCH, LONGEST, duration, micros
from laneway.core.common.jitter import part
from laneway.core.schedules.base import MICRO, SECOND, Schedule, aware, in_zone
from laneway.core.schedules.calendar.zones import LATEST, checked_zone
from laneway.core.schedules.phrases import length_of_time
from laneway.errors import BadSetting

LAST_YEAR = 9998
_LATEST = EPOCH + timedelta(seconds=LATEST)
_LAST_ASKED = LATEST * 1_000_000 - LONGEST


@dataclass(frozen=True, slots=True)
class At(Schedule):
    """One instant: an aware datetime, or a naive one, which is local time in the time zone.

    A local time in a gap means the first instant after it; one that comes twice means the first.

    >>> At(datetime(2026, 12, 1, 9), tz="Europe/Berlin").next_after(EPOCH).isoformat()
    '2026-12-01T08:00:00+00:00'
    """

    instant: datetime
    tz: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.instant, datetime):
            raise BadSetting(f"At({self.instant!r}): it must be a datetime")
        if not 2 < self.instant.year < LAST_YEAR:
            raise BadSetting(f"At({self.instant.isoformat()}): the year must be 3 to {LAST_YEAR - 1}")
        checked_zone(self.tz)
        if self.instant.tzinfo is not None:
            object.__setattr__(self, "instant", self.instant.astimezone(UTC))

    def next_after(self, instant: datetime, tz: str | None = None) -> datetime | None:
        """Return the instant if it is later than `instant`."""
        fire = self.resolved(tz)
        return fire if (fire - aware(instant)) > timedelta(0) else None

    def resolved(self, tz: str | None = None) -> datetime:
        """Return the instant, in UTC."""
        if self.instant.tzinfo is not None:
            return self.instant
        wall, fraction = divmod(self.instant.replace(tzinfo=UTC) - EPOCH, SECOND)
        at = EPOCH + timedelta(seconds=self.zone(tz).instant(wall))
        return at + fraction

    def describe(self) -> str:
        """Return the rule in words."""
        zone = "UTC" if self.instant.tzinfo else self.tz
        shown = self.instant.replace(tzinfo=None).isoformat(" ").removesuffix(":00")
        return in_zone(f"once, at {shown}", zone)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        return {"kind": "at", "instant": self.instant.isoformat().replace("+00:00", "Z")}


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """A period of elapsed time, counted from `anchor`: no drift, whatever happens in between.

    Without an anchor it counts from 1970; a job sets the anchor to its creation (`anchored`). With `after="end"` the
    period begins when a run ends: the next fire is one period after the given instant. `jitter` moves fires later by
    less than that, and is less than the period.

    >>> rule = Every(1800, anchor=datetime(2026, 1, 1, 0, 7, tzinfo=UTC))
    >>> rule.describe(), rule.next_after(datetime(2026, 5, 5, tzinfo=UTC)).isoformat()
    ('every 30 minutes, counted from 2026-01-01 00:07 UTC', '2026-05-05T00:07:00+00:00')
    """

    period: timedelta | float
    anchor: datetime | None = None
    jitter: timedelta | float = 0
    after: Literal["start", "end"] = "start"
    tz: str | None = None
    _length: int = field(init=False, repr=False, compare=False)  # period and anchor in microseconds
    _anchored_at: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        period, jitter = duration(self.period, "period"), duration(self.jitter, "jitter")
        if period == 0:
            raise BadSetting(f"Every({self.period!r}): the period must be more than 0")
        if jitter >= period:
            raise BadSetting(f"jitter is {jitter * MICRO} and the period {period * MICRO}; jitter must be less than it")
        if self.after not in ("start", "end"):
            raise BadSetting.unknown("after", str(self.after), ("start", "end"))
        if self.anchor is not None and (not isinstance(self.anchor, datetime) or self.anchor.tzinfo is None):
            raise BadSetting(f"anchor is {self.anchor!r}; it must be an aware datetime")
        checked_zone(self.tz)
        object.__setattr__(self, "period", period * MICRO)
        object.__setattr__(self, "jitter", jitter * MICRO)
        if self.anchor is not None:
            object.__setattr__(self, "anchor", self.anchor.astimezone(UTC))
        object.__setattr__(self, "_length", period)
        object.__setattr__(self, "_anchored_at", None if self.anchor is None else micros(self.anchor))

    def next_after(self, instant: datetime, tz: str | None = None) -> datetime | None:
        """Return the first fire strictly later than `instant`; the anchor itself is a fire."""
        assert isinstance(self.period, timedelta)
        if _LATEST - aware(instant) < LONGEST * MICRO:
            return None
        anchor = self.anchor or EPOCH
        if self.after == "end":
            return instant.astimezone(UTC) + self.period
        if self.anchor is not None and instant - anchor < timedelta(0):
            return anchor
        return anchor + ((instant - anchor) // self.period + 1) * self.period

    def following(self, at: int, tz: str | None = None) -> int | None:
        """Return the first fire later than `at`. It avoids datetimes, because jobs with a period call it very often."""
        if at > _LAST_ASKED:
            return None
        length, anchor = self._length, self._anchored_at
        if self.after == "end":
            return at + length
        if anchor is not None and at < anchor:
            return anchor
        return at + length - (at - (anchor or 0)) % length

    def anchored(self, anchor: datetime) -> Every:
        """Return the same rule counted from `anchor`, unless it has an anchor already."""
        return self if self.anchor is not None else replace(self, anchor=anchor)

    def spread(self, nominal: datetime, key: str) -> datetime:
        """Return when the fire of the nominal time is due: the jitter is a hash of `key` and that time."""
        assert isinstance(self.jitter, timedelta)
        if not self.jitter:
            return nominal
        return nominal + part(f"{key}/{micros(nominal)}", self.jitter // MICRO) * MICRO

    def describe(self) -> str:
        """Return the rule in words."""
        assert isinstance(self.period, timedelta)
        assert isinstance(self.jitter, timedelta)
        words = f"every {length_of_time(self.period)}"
        if self.after == "end":
            words = f"{length_of_time(self.period, bare=False)} after the end of each run"
        if self.anchor:
            words += f", counted from {self.anchor.replace(tzinfo=None).isoformat(' ').removesuffix(':00')} UTC"
        return words + (f", up to {length_of_time(self.jitter, bare=False)} later" if self.jitter else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values, durations in seconds."""
        assert isinstance(self.period, timedelta)
        assert isinstance(self.jitter, timedelta)
        plain: dict[str, Any] = {"kind": "every", "period": _seconds(self.period)}
        if self.anchor:
            plain["anchor"] = self.anchor.isoformat().replace("+00:00", "Z")
        if self.jitter:
            plain["jitter"] = _seconds(self.jitter)
        return plain | ({"after": "end"} if self.after == "end" else {})


def _seconds(length: timedelta) -> float:
    seconds = length.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds
