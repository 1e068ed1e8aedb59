"""Schedules as plain values and back: `{"v": 1, "kind": "cron", "expression": "0 9 * * 1-5", "tz": "Asia/Tokyo"}`.

Stores keep them in this form, and programs exchange it. A reader refuses a newer version and an unknown kind or name,
because a rule that is read only in part fires at the wrong time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from laneway.core.schedules.anyof import AnyOf
from laneway.core.schedules.at_every import At, Every
from laneway.core.schedules.base import Schedule
from laneway.core.schedules.cron.cron import Cron
from laneway.core.schedules.daily import DailyAt, Weekly
from laneway.core.schedules.filtered import Between, Except
from laneway.core.schedules.monthly import Monthly
from laneway.errors import BadSetting, StoreTooNew

VERSION = 1


def to_dict(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as plain values.

    >>> to_dict(DailyAt(9, tz="Asia/Tokyo"))
    {'v': 1, 'kind': 'daily', 'hour': 9, 'minute': 0, 'second': 0, 'tz': 'Asia/Tokyo'}
    """
    return {"v": VERSION, **_plain(schedule)}


def from_dict(plain: Mapping[str, Any]) -> Schedule:
    """Return the schedule for plain values, checked as if it were created anew.

    >>> from_dict({"v": 1, "kind": "weekly", "day": "mon", "hour": 9}) == Weekly(1, 9)
    True
    """
    if not isinstance(plain, Mapping):
        raise BadSetting(f"a schedule is a mapping with a kind, not {plain!r}")
    values = dict(plain)
    version = values.pop("v", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise StoreTooNew(f"this schedule has version {version!r}; this laneway reads up to {VERSION}")
    return _made(values)


def _plain(schedule: Schedule) -> dict[str, Any]:
    plain = schedule.to_dict()
    if "schedule" in plain:
        plain["schedule"] = _plain(plain["schedule"])
    if "schedules" in plain:
        plain["schedules"] = [_plain(one) for one in plain["schedules"]]
    return plain | ({"tz": schedule.tz} if schedule.tz else {})


def _made(values: dict[str, Any]) -> Schedule:
    kind = values.pop("kind", None)
    if kind not in _MAKERS:
        raise BadSetting.unknown("kind of schedule", str(kind), _MAKERS)
    make, names = _MAKERS[kind]
    for name in values:
        if name not in names:
            raise BadSetting.unknown(f"setting of a schedule of kind {kind}:", name, names)
    for name in ("instant", "anchor"):
        if name in values:
            values[name] = _instant(values[name], name)
    if "schedule" in values:
        values["schedule"] = _made(_mapping(values["schedule"]))
    try:
        return make(**values)
    except TypeError:
        missing = names[0]
        raise BadSetting(f"a schedule of kind {kind} needs {missing}") from None


def _any_of(schedules: object = (), tz: str | None = None) -> Schedule:
    if not isinstance(schedules, (list, tuple)):
        raise BadSetting(f"schedules is {schedules!r}; it must be a list of schedules")
    return AnyOf(*(_made(_mapping(one)) for one in schedules), tz=tz)


def _mapping(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise BadSetting(f"a schedule is a mapping with a kind, not {given!r}")
    return dict(given)


def _instant(given: object, name: str) -> datetime:
    try:
        return given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    except ValueError:
        raise BadSetting(f"{name} {given!r} is no instant; write it as 2026-12-01T09:00 or 2026-12-01T08:00Z") from None


_TIME = ("hour", "minute", "second")
_MAKERS: dict[str, tuple[Callable[..., Schedule], tuple[str, ...]]] = {
    "at": (At, ("instant", "tz")),
    "every": (Every, ("period", "anchor", "jitter", "after", "tz")),
    "daily": (DailyAt, (*_TIME, "tz")),
    "weekly": (Weekly, ("day", *_TIME, "tz")),
    "monthly": (Monthly, ("day", *_TIME, "clamp", "tz")),
    "cron": (Cron, ("expression", "tz")),
    "any_of": (_any_of, ("schedules", "tz")),
    "except": (Except, ("schedule", "dates", "tz")),
    "between": (Between, ("schedule", "start", "end", "tz")),
}
