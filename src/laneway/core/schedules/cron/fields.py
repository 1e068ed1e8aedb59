"""The fields of a cron rule: numbers, names, ranges, steps and lists become bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laneway.core.schedules.calendar.days import MONTHS, WEEKDAYS
from laneway.errors import BadSetting

_MONTH_NAMES = {name[:3]: number for number, name in enumerate(MONTHS, start=1)}
_DAY_NAMES = {name[:3]: (number + 1) % 7 for number, name in enumerate(WEEKDAYS)}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field counts, with its bounds."""

    name: str
    least: int
    most: int
    names: Mapping[str, int]

    @property
    def bounds(self) -> str:
        """The bounds, in words."""
        words = f"{self.least} to {self.most}"
        return f"{words} or {', '.join(self.names)}" if self.names else words


SECONDS = Kind("second", 0, 59, {})
MINUTES = Kind("minute", 0, 59, {})
HOURS = Kind("hour", 0, 23, {})
MONTH_DAYS = Kind("day of month", 1, 31, {})
MONTH = Kind("month", 1, 12, _MONTH_NAMES)
# In cron both 0 and 7 are Sunday.
WEEK_DAYS = Kind("day of week", 0, 7, _DAY_NAMES)


class Wrong(Exception):
    """What is wrong with a field. The caller adds the rule to the message."""


def bits(text: str, kind: Kind) -> int:
    """Return the values of a field as bits.

    >>> [value for value in range(60) if bits("5-20/5,59", MINUTES) >> value & 1]
    [5, 10, 15, 20, 59]
    """
    found = 0
    for item in text.split(","):
        found |= _item(item, kind)
    return found


def _item(item: str, kind: Kind) -> int:
    if not item:
        raise Wrong("there is a comma with nothing beside it")
    span, slash, step_text = item.partition("/")
    first, last = _span(span, kind, stepped=bool(slash))
    step = _step(step_text, kind) if slash else 1
    return sum(1 << value for value in range(first, last + 1, step))


def _span(span: str, kind: Kind, *, stepped: bool) -> tuple[int, int]:
    if span == "*":
        return kind.least, kind.most
    start, dash, end = span.partition("-")
    first = value(start, kind)
    if not dash:
        return first, kind.most if stepped else first
    last = value(end, kind)
    if kind is WEEK_DAYS and last == 0 < first:
        last = 7  # the week ends with Sunday
    if first > last:
        raise Wrong(f"the range {span} goes backwards; write {start}-{kind.most},{kind.least}-{end}")
    return first, last


def _step(text: str, kind: Kind) -> int:
    most = kind.most - kind.least
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise Wrong(f"the step {text!r} must be a whole number, 1 or more")
    if int(text) > most:
        raise Wrong(f"a step of {text} does not fit into {kind.least} to {kind.most}")
    return int(text)


def value(text: str, kind: Kind) -> int:
    """Return one value, given as a number or a name."""
    if text.lower() in kind.names:
        return kind.names[text.lower()]
    if not text.isascii() or not text.isdecimal():
        raise Wrong(f"{text!r} is none; it can be {kind.bounds}")
    if not kind.least <= int(text) <= kind.most:
        raise Wrong(f"{int(text)} is out of range; it can be {kind.bounds}")
    return int(text)


def refused(rule: str, kind: Kind, text: str, why: str) -> BadSetting:
    """Return the error for a field."""
    return BadSetting(f"cron {rule!r}: {kind.name} {text!r}: {why}")
