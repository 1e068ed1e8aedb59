"""Cron rules: five fields, or six with seconds first, or a short form such as `@daily`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from laneway.core.schedules.base import in_zone
from laneway.core.schedules.calendar.days import CYCLE, EVERY_MONTH
from laneway.core.schedules.calendar.walls import EVERY_HOUR, EVERY_MINUTE, EVERY_SECOND, Walls
from laneway.core.schedules.calendar.zones import checked_zone
from laneway.core.schedules.cron import fields
from laneway.core.schedules.cron.days import CronDays, days_in_words, month_days, months_in_words, week_days
from laneway.core.schedules.cron.fields import Kind, Wrong, bits, refused
from laneway.core.schedules.daily import WallSchedule
from laneway.core.schedules.phrases import clock, listed
from laneway.errors import BadSetting, did_you_mean

T = TypeVar("T")
SHORT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@minutely": "* * * * *",
}
MANY = 6  # so many times of day are listed one by one


@dataclass(frozen=True, slots=True)
class Cron(WallSchedule):
    """`minute hour day-of-month month day-of-week`, or six fields with the second first.

    Lists, ranges, steps and names as in cron; `L` and `LW` in day of month, `5L` and `1#2` in day of week. The rule is
    fixed-time if neither minute nor hour begins with `*`.

    >>> Cron("0 9 * * mon-fri", tz="Asia/Tokyo").describe()
    'at 09:00 on Monday to Friday (Asia/Tokyo)'
    >>> Cron("0 25 * * *")
    Traceback (most recent call last):
    laneway.errors.BadSetting: cron '0 25 * * *': hour '25': 25 is out of range; it can be 0 to 23
    """

    expression: str
    tz: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise BadSetting(f"Cron({self.expression!r}): it must be text, such as '0 9 * * 1-5'")
        object.__setattr__(self, "expression", " ".join(self.expression.split()))
        parsed(self.expression)
        checked_zone(self.tz)

    def walls(self) -> Walls:
        """Return the wall-clock times at which it fires."""
        return parsed(self.expression)

    def describe(self) -> str:
        """Return the rule in words."""
        walls, (*_, of_month, _, of_week) = self.walls(), six_fields(self.expression)
        assert isinstance(walls.days, CronDays)
        words = [_times(walls), days_in_words(walls.days, of_month, of_week)]
        words += [f"in {months_in_words(walls.months)}"] if walls.months != EVERY_MONTH else []
        return in_zone(" ".join(word for word in words if word), self.tz)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        return {"kind": "cron", "expression": self.expression}


def six_fields(expression: str) -> list[str]:
    """Return the six fields of a rule. Raises BadSetting if there are not five or six."""
    if expression.startswith("@"):
        name = expression.lower()
        if name not in SHORT:
            near = did_you_mean(name, SHORT) or f"; there are {', '.join(SHORT)}"
            raise BadSetting(f"cron {expression!r}: unknown short form{near}")
        expression = SHORT[name]
    texts = expression.split()
    if len(texts) not in (5, 6):
        raise BadSetting(
            f"cron {expression!r} has {len(texts)} fields;"
            " it must have 5 (minute, hour, day of month, month, day of week) or 6 (second first)"
        )
    return texts if len(texts) == 6 else ["0", *texts]


@lru_cache(maxsize=4096)
def parsed(expression: str) -> Walls:
    """Return the wall-clock times of a rule. Raises BadSetting, which names the wrong field and why."""
    second, minute, hour, of_month, month, of_week = six_fields(expression)
    both_given = not of_month.startswith("*") and not of_week.startswith("*")
    walls = Walls(
        seconds=_read(expression, second, fields.SECONDS, bits),
        minutes=_read(expression, minute, fields.MINUTES, bits),
        hours=_read(expression, hour, fields.HOURS, bits),
        days=CronDays(
            _read(expression, of_month, fields.MONTH_DAYS, month_days),
            _read(expression, of_week, fields.WEEK_DAYS, week_days),
            both_given,
        ),
        months=_read(expression, month, fields.MONTH, bits),
        fixed=not minute.startswith("*") and not hour.startswith("*"),
    )
    if not _comes(walls):
        raise refused(expression, fields.MONTH_DAYS, of_month, f"never comes in {months_in_words(walls.months)}")
    return walls


def _read(expression: str, text: str, kind: Kind, reader: Callable[[str, Kind], T]) -> T:
    try:
        if "?" in text:
            raise Wrong("there is no ? here; write *")
        return reader(text, kind)
    except Wrong as wrong:
        raise refused(expression, kind, text, str(wrong)) from None


def _comes(walls: Walls) -> bool:
    """Tell whether any day fits. The calendar repeats itself, so one whole cycle has the answer."""
    months = [month for month in range(1, 13) if walls.months >> month & 1]
    return any(walls.days.of(year, month) for year in range(2000, 2000 + CYCLE) for month in months)


def _values(found: int) -> list[int]:
    return [value for value in range(found.bit_length()) if found >> value & 1]


def _times(walls: Walls) -> str:
    seconds, minutes, hours = _values(walls.seconds), _values(walls.minutes), _values(walls.hours)
    if len(seconds) * len(minutes) * len(hours) <= MANY:
        return (
            f"at {listed([clock(hour, minute, second) for hour in hours for minute in minutes for second in seconds])}"
        )
    words = []
    if walls.seconds != 1:
        words.append(_each("second", walls.seconds, EVERY_SECOND, 60))
    if walls.minutes != EVERY_MINUTE or not words:
        words.append(_each("minute", walls.minutes, EVERY_MINUTE, 60))
    if walls.hours != EVERY_HOUR:
        words.append(_each("hour", walls.hours, EVERY_HOUR, 24))
    elif walls.minutes != EVERY_MINUTE and " every " not in f" {words[-1]}":
        words.append("every hour")
    return " of ".join(words)


def _each(unit: str, found: int, every: int, size: int) -> str:
    """Return the values of one unit in words.

    >>> _each("minute", 1 | 1 << 20 | 1 << 40, EVERY_MINUTE, 60), _each("hour", 0b111 << 9, EVERY_HOUR, 24)
    ('every 20 minutes', 'hours 9 to 11')
    """
    values = _values(found)
    if found == every:
        return f"every {unit}"
    step = values[1] - values[0] if len(values) > 1 else size
    if values == list(range(0, size, step)) and size % step == 0 and step < size:
        return f"every {step} {unit}s"
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{unit}s {values[0]} to {values[-1]}"
    return f"{unit}{'s' * (len(values) > 1)} {listed([str(value) for value in values])}"
