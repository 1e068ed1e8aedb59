"""The days of a cron rule: its day-of-month and day-of-week fields, and how they combine."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.core.schedules.calendar.days import LAST, MONTHS, Weekdays, length, nth_weekday, weekdays
from laneway.core.schedules.cron.fields import MONTH_DAYS, WEEK_DAYS, Kind, Wrong, bits, value
from laneway.core.schedules.phrases import listed, ordinal, weekday_name


@dataclass(frozen=True, slots=True)
class MonthDays:
    """A day-of-month field: numbers, `L` the last day, `LW` the last from Monday to Friday."""

    numbers: int
    last: bool = False
    last_workday: bool = False

    def of(self, year: int, month: int) -> int:
        end = length(year, month)
        found = self.numbers & ((2 << end) - 1)
        if self.last:
            found |= 1 << end
        if self.last_workday:
            working = Weekdays((0, 1, 2, 3, 4)).of(year, month)
            found |= 1 << (working.bit_length() - 1)
        return found


@dataclass(frozen=True, slots=True)
class WeekDays:
    """A day-of-week field, Monday 0: some always, some only as the nth in a month."""

    always: tuple[int, ...]
    nth: tuple[tuple[int, int], ...] = ()

    def of(self, year: int, month: int) -> int:
        found = weekdays(year, month, *self.always)
        for day, nth in self.nth:
            found |= nth_weekday(year, month, day, nth)
        return found


@dataclass(frozen=True, slots=True)
class CronDays:
    """Both fields. A day must fit either of them; if one begins with `*`, both, as in Debian's cron."""

    by_month: MonthDays
    by_week: WeekDays
    either: bool

    def of(self, year: int, month: int) -> int:
        by_month, by_week = self.by_month.of(year, month), self.by_week.of(year, month)
        return by_month | by_week if self.either else by_month & by_week


def month_days(text: str, kind: Kind = MONTH_DAYS) -> MonthDays:
    """Parse the day-of-month field."""
    items = text.upper().split(",")
    for item in items:
        if "L" in item and item not in ("L", "LW"):
            raise Wrong(f"{item!r} is none; the last day is L, the last from Monday to Friday LW")
        if "W" in item and item != "LW":
            raise Wrong(f"{item!r} is none; of W there is only LW, the last day from Monday to Friday")
    numbers = [item for item in items if item not in ("L", "LW")]
    return MonthDays(bits(",".join(numbers), kind) if numbers else 0, "L" in items, "LW" in items)


def week_days(text: str, kind: Kind = WEEK_DAYS) -> WeekDays:
    """Parse the day-of-week field."""
    items = text.split(",")
    special = [item for item in items if "#" in item or (item[-1:] in "lL" and item[:-1])]
    usual = [item for item in items if item not in special]
    found = bits(",".join(usual), kind) if usual else 0
    always = sorted({(day - 1) % 7 for day in range(8) if found >> day & 1})
    return WeekDays(tuple(always), tuple(sorted({_nth(item) for item in special})))


def _nth(item: str) -> tuple[int, int]:
    if "#" not in item:
        return (value(item[:-1], WEEK_DAYS) - 1) % 7, LAST
    name, _, nth = item.partition("#")
    day = (value(name, WEEK_DAYS) - 1) % 7
    if nth.upper() == "L":
        return day, LAST
    if nth not in ("1", "2", "3", "4", "5"):
        raise Wrong(f"{item!r}: after # comes which one of the month, 1 to 5, or L for the last")
    return day, int(nth)


def days_in_words(days: CronDays, month_text: str, week_text: str) -> str:
    """Return the days in words; empty if every day fits."""
    parts = []
    if month_text != "*":
        parts.append(_month_words(days.by_month))
    if week_text != "*" and (len(days.by_week.always) < 7 or days.by_week.nth):
        parts.append(_week_words(days.by_week))
    return (" or " if days.either else " that is also ").join(parts)


def _month_words(days: MonthDays) -> str:
    words = [str(day) for day in range(1, 32) if days.numbers >> day & 1]
    parts = [f"day {listed(words)}"] if words else []
    parts += ["the last day"] if days.last else []
    parts += ["the last day from Monday to Friday"] if days.last_workday else []
    return f"on {listed(parts)} of the month"


def _week_words(days: WeekDays) -> str:
    names = [weekday_name(day) for day in days.always]
    if len(names) > 2 and days.always[-1] - days.always[0] == len(names) - 1:
        names = [f"{names[0]} to {names[-1]}"]
    return f"on {listed(names + [f'the {ordinal(nth)} {weekday_name(day)} of the month' for day, nth in days.nth])}"


def months_in_words(months: int) -> str:
    """Return months in words."""
    return listed([name.capitalize() for number, name in enumerate(MONTHS, start=1) if months >> number & 1])
