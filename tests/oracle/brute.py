"""The slow answer, written apart from the fast one: read the wall clock at every minute, and look what it showed.

It shares nothing with `laneway.core.schedules` but the plain form of a rule, which it reads by itself.
"""

from __future__ import annotations

import calendar
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Plain = dict[str, Any]


class Sky:
    """What the clock on the wall of a zone showed in every minute from `first` to `last`."""

    def __init__(self, zone: str, first: datetime, last: datetime) -> None:
        self.zone = ZoneInfo(zone)
        self.shows: dict[datetime, list[datetime]] = {}
        self.gaps: list[tuple[datetime, datetime, datetime]] = []
        at, before = first, self.wall(first) - MINUTE
        while at <= last:
            wall = self.wall(at)
            if wall - before > MINUTE:
                self.gaps.append((before + MINUTE, wall, at))
            self.shows.setdefault(wall, []).append(at)
            at, before = at + MINUTE, wall
        self.dates = sorted({wall.date() for wall in self.shows} | {d for gap in self.gaps for d in between(*gap[:2])})

    def wall(self, at: datetime) -> datetime:
        return at.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def instants(self, wall: datetime, *, fixed: bool) -> list[datetime]:
        """Return when a rule that names this minute fires; nothing if the walk did not come by."""
        shown = self.shows.get(wall)
        if shown is not None:
            return shown[:1] if fixed else shown
        for start, end, at in self.gaps:
            if start <= wall < end:
                return [at] if fixed else [at + (wall - start)]
        return []


def between(start: datetime, end: datetime) -> Iterator[date]:
    day = start.date()
    while day <= end.date():
        yield day
        day += DAY


@dataclass(frozen=True)
class Fields:
    seconds: list[int]
    times: list[time]
    fixed: bool
    day: Any


def fires(plain: Plain, sky: Sky, low: datetime, high: datetime) -> list[datetime]:
    """Return every fire later than `low` and no later than `high`."""
    return sorted(fire for fire in set(all_fires(plain, sky, low, high)) if low < fire <= high)


def all_fires(plain: Plain, sky: Sky, low: datetime, high: datetime) -> Iterator[datetime]:
    kind = plain["kind"]
    if kind == "any_of":
        for one in plain["schedules"]:
            yield from all_fires(one, sky, low, high)
    elif kind in ("except", "between"):
        test = filter_test(plain)
        yield from (fire for fire in all_fires(plain["schedule"], sky, low, high) if test(fire.astimezone(sky.zone)))
    elif kind == "every":
        anchor = datetime.fromisoformat(plain.get("anchor", "1970-01-01T00:00Z"))
        period = timedelta(seconds=plain["period"])
        fire = low - (low - anchor) % period
        while fire <= high:
            if fire >= anchor:  # nothing fires before what it is counted from
                yield fire
            fire += period
    else:
        # Both ends are further from the change than the clock was moved, so no other walls show in between.
        yield from wall_fires(read(plain), sky, sky.wall(low) - MINUTE, sky.wall(high) + MINUTE)


def filter_test(plain: Plain) -> Any:
    if plain["kind"] == "except":
        dates = set(plain["dates"])
        return lambda local: local.date().isoformat() not in dates
    start, end = time.fromisoformat(plain["start"]), time.fromisoformat(plain["end"])
    if start < end:
        return lambda local: start <= local.time() < end
    return lambda local: not end <= local.time() < start


def wall_fires(fields: Fields, sky: Sky, first: datetime, last: datetime) -> Iterator[datetime]:
    for day in sky.dates:
        if first.date() <= day <= last.date() and fields.day(day):
            walls = [datetime.combine(day, at) for at in fields.times]
            for wall in walls[bisect_left(walls, first) : bisect_right(walls, last)]:
                for minute in sky.instants(wall, fixed=fields.fixed):
                    in_gap = fields.fixed and wall not in sky.shows
                    yield from [minute] if in_gap else [minute + timedelta(seconds=s) for s in fields.seconds]


def read(plain: Plain) -> Fields:
    """Read the plain form of a rule of the wall clock."""
    if plain["kind"] == "cron":
        return cron(plain["expression"])
    return Fields([plain["second"]], [time(plain["hour"], plain["minute"])], True, day_test(plain))


def day_test(plain: Plain) -> Any:
    if plain["kind"] == "daily":
        return lambda _: True
    given = plain["day"]
    if plain["kind"] == "weekly":
        names = [given] if isinstance(given, str) else given
        return lambda day: DAYS[day.weekday()] in names
    if isinstance(given, int):
        clamp = plain.get("clamp", False)
        return lambda day: day.day == given or (clamp and day.day < given and is_last(day))
    if given == "last":
        return is_last
    place, name = given.split()
    return lambda day: DAYS[day.weekday()] == name and (nth(day) == int(place[0]) if place != "last" else is_last7(day))


def nth(day: date) -> int:
    return (day.day - 1) // 7 + 1


def is_last(day: date) -> bool:
    return (day + DAY).month != day.month


def is_last7(day: date) -> bool:
    return (day + 7 * DAY).month != day.month


def is_last_workday(day: date) -> bool:
    month = [date(day.year, day.month, n) for n in range(1, calendar.monthrange(day.year, day.month)[1] + 1)]
    return day == max(one for one in month if one.weekday() < 5)


@cache
def cron(text: str) -> Fields:
    short = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0"}
    short |= {"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@minutely": "* * * * *"}
    parts = short.get(text, text).lower().split()
    second, minute, hour, of_month, month, of_week = parts if len(parts) == 6 else ["0", *parts]
    minutes, hours, months = numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(worded(month, NAMES, 1), 1, 12)

    def fits(day: date) -> bool:
        in_month = any(month_day(item, day) for item in of_month.split(","))
        in_week = any(week_day(item, day) for item in worded(of_week, [DAYS[6], *DAYS[:6]], 0).split(","))
        either = of_month[0] != "*" and of_week[0] != "*"
        return day.month in months and ((in_month or in_week) if either else (in_month and in_week))

    times = [time(h, m) for h in sorted(hours) for m in sorted(minutes)]
    return Fields(sorted(numbers(second, 0, 59)), times, "*" not in (minute[0], hour[0]), fits)


def month_day(item: str, day: date) -> bool:
    if item == "l":
        return is_last(day)
    return is_last_workday(day) if item == "lw" else day.day in numbers(item, 1, 31)


def week_day(item: str, day: date) -> bool:
    sunday_first = day.isoweekday() % 7
    if "#" in item:
        name, place = item.split("#")
        return sunday_first == int(name) % 7 and nth(day) == int(place)
    if item.endswith("l"):
        return sunday_first == int(item[:-1]) % 7 and is_last7(day)
    return sunday_first in {n % 7 for n in numbers(re.sub("-0$", "-7", item), 0, 7)}


def worded(field: str, names: list[str], first: int) -> str:
    for number, name in enumerate(names, start=first):
        field = field.replace(name, str(number))
    return field


@cache
def numbers(field: str, least: int, most: int) -> set[int]:
    found: set[int] = set()
    for item in field.split(","):
        match = re.fullmatch(r"(?:(\*)|(\d+)(?:-(\d+))?)(?:/(\d+))?", item)
        assert match, item
        star, start, end, step = match.groups()
        low = least if star else int(start)
        high = most if star or (step and not end) else int(end or start)
        found |= {n for n in range(least, most + 1) if low <= n <= high and (n - low) % int(step or 1) == 0}
    return found


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
