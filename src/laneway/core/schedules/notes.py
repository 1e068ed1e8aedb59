"""What is special about a fire because clocks changed, in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from laneway.core.common.instants import EPOCH
from laneway.core.schedules.anyof import AnyOf
from laneway.core.schedules.at_every import At
from laneway.core.schedules.base import Schedule, whole_seconds
from laneway.core.schedules.calendar.walls import Walls
from laneway.core.schedules.calendar.zones import DAY, REACH, ClockChange, Zone
from laneway.core.schedules.daily import WallSchedule
from laneway.core.schedules.filtered import Filtered
from laneway.core.schedules.phrases import clock


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about one fire: whether a gap moved it or a fold repeats its time, and a sentence for people."""

    kind: Literal["gap", "fold"]
    text: str


def note(schedule: Schedule, fire: datetime, tz: str | None = None) -> Note | None:
    """Return what is special about a fire of a schedule, or None.

    >>> from datetime import UTC
    >>> from laneway.core.schedules.daily import DailyAt
    >>> note(DailyAt(2, 30), datetime(2026, 3, 29, 1, tzinfo=UTC), "Europe/Berlin").text
    '02:30 does not exist on this day, the clock goes from 02:00 to 03:00: it fires at 03:00'
    """
    tz = schedule.tz or tz
    if isinstance(schedule, AnyOf):
        found = [note(one, fire, tz) for one in schedule.firing(fire, tz)]
        return next((one for one in found if one is not None), None)
    if isinstance(schedule, Filtered):
        return note(schedule.schedule, fire, tz)
    at, zone = whole_seconds(fire), schedule.zone(tz)
    for change in reversed(zone.changes(at - REACH, at + REACH)):
        said = _about_gap(schedule, at, change, zone) if change.is_gap else _about_fold(schedule, at, change)
        if said is not None:
            return said
    return None


def _about_gap(schedule: Schedule, at: int, change: ClockChange, zone: Zone) -> Note | None:
    meant = _meant(schedule, at, change)
    if meant is None:
        return None
    shown = at + zone.offset(at)
    moved = f"the clock goes from {_shown(change.first_wall, meant)} to {_shown(change.end_wall, meant)}"
    text = f"{_shown(meant, meant)} does not exist on this day, {moved}: it fires at {_shown(shown, meant)}"
    return Note("gap", text)


def _meant(schedule: Schedule, at: int, change: ClockChange) -> int | None:
    """Return the wall-clock time inside the gap that a fire stands for; None if it stands for the one that exists."""
    if isinstance(schedule, At):
        if schedule.instant.tzinfo is not None:
            return None
        wall = (schedule.instant - EPOCH.replace(tzinfo=None)) // timedelta(seconds=1)
        return wall if change.at == at and change.first_wall <= wall < change.end_wall else None
    if not isinstance(schedule, WallSchedule):
        return None
    walls = schedule.walls()
    if walls.fits(at + change.after):
        return None
    return _in_gap(walls, at, change)


def _in_gap(walls: Walls, at: int, change: ClockChange) -> int | None:
    if walls.fixed:
        wall = walls.first(change.first_wall) if at == change.at else None
    else:
        wall = at + change.before if at >= change.at and walls.fits(at + change.before) else None
    return wall if wall is not None and wall < change.end_wall else None


def _about_fold(schedule: Schedule, at: int, change: ClockChange) -> Note | None:
    length = change.before - change.after
    if not change.at - length <= at < change.at + length:
        return None
    wall = at + (change.before if at < change.at else change.after)
    moved = f"the clock goes back from {_shown(change.end_wall, wall)} to {_shown(change.first_wall, wall)}"
    once = isinstance(schedule, At) or (isinstance(schedule, WallSchedule) and schedule.walls().fixed)
    if isinstance(schedule, At) and schedule.instant.tzinfo is not None:
        once = False
    which = "the first" if at < change.at else "the second"
    ending = "it fires the first time only" if once else f"this is {which}"
    return Note("fold", f"{_shown(wall, wall)} comes twice on this day, {moved}: {ending}")


def _shown(wall: int, beside: int) -> str:
    """Return a wall-clock time in words, with its date if that is another day."""
    time = clock(wall % DAY // 3600, wall % 3600 // 60, wall % 60)
    if wall // DAY == beside // DAY:
        return time
    return f"{(EPOCH + timedelta(seconds=wall)).date().isoformat()} {time}"
