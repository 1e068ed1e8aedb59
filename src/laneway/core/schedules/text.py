"""A schedule parsed from one line of text, as a person types it.

```
0 9 * * 1-5            @daily              every 30m            every 1h30m
daily 09:00            weekly mon 09:00    weekly mon,fri 9:00  at 2026-12-01T09:00
monthly 15 09:00       monthly last 18:00  monthly 2nd tue 9:00 monthly 31 clamp 09:00
```
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from datetime import datetime

from laneway.core.schedules.at_every import At, Every
from laneway.core.schedules.base import Schedule
from laneway.core.schedules.cron.cron import Cron
from laneway.core.schedules.daily import DailyAt, Weekly
from laneway.core.schedules.monthly import Monthly
from laneway.errors import BadSetting

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FORMS = {
    "at": "at 2026-12-01T09:00",
    "every": "every 30m",
    "daily": "daily 09:00",
    "weekly": "weekly mon 09:00",
    "monthly": "monthly last 18:00",
}
FORMS = f"'0 9 * * 1-5', '@daily', {', '.join(repr(form) for form in _FORMS.values())}"


def read(text: str, tz: str | None = None) -> Schedule:
    """Return the schedule of a line. Raises BadSetting, which says what is wrong and what would be right.

    >>> read("weekly mon,fri 09:00", "Asia/Tokyo").describe()
    'every Monday and Friday at 09:00 (Asia/Tokyo)'
    >>> read("evry 5m")
    Traceback (most recent call last):
    laneway.errors.BadSetting: 'evry 5m' is no schedule, did you mean 'every'? Write it as in 'every 30m'
    """
    kind, *rest = text.split() or [""]
    if kind.lower() in _READERS:
        return _READERS[kind.lower()](rest, tz)
    if _is_cron(kind, rest):
        return Cron(text, tz)
    near = difflib.get_close_matches(kind.lower(), _READERS, n=1)
    if near:
        raise BadSetting(f"{text!r} is no schedule, did you mean {near[0]!r}? Write it as in {_FORMS[near[0]]!r}")
    raise BadSetting(f"{text!r} is no schedule; write it as in {FORMS}")


def period(text: str) -> float | None:
    """Return the seconds of a duration such as `90s` or `1h30m`; None if it is none.

    >>> period("1h30m"), period("soon")
    (5400.0, None)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _is_cron(first: str, rest: list[str]) -> bool:
    # Words that cron does not know in its first field are a mistaken schedule, not a cron rule.
    return first.startswith("@") or first[:1] in set("*0123456789") or len(rest) in (4, 5)


def _at(words: list[str], tz: str | None) -> Schedule:
    text = " ".join(words)
    try:
        return At(datetime.fromisoformat(text), tz)
    except ValueError:
        raise BadSetting(
            f"at {text!r}: this is no instant; write it as in 'at 2026-12-01T09:00', or with its offset, or with Z"
        ) from None


def _every(words: list[str], tz: str | None) -> Schedule:
    seconds = period("".join(words))
    if seconds is None:
        raise BadSetting(
            f"every {' '.join(words)!r}: this is no period; write it as in 'every 30m', 'every 1h30m', 'every 2d'"
        )
    return Every(seconds, tz=tz)


def _daily(words: list[str], tz: str | None) -> Schedule:
    if len(words) != 1:
        raise _incomplete("daily", words, "a time of day")
    return DailyAt(*_time("daily", words[0]), tz=tz)


def _weekly(words: list[str], tz: str | None) -> Schedule:
    if len(words) < 2:
        raise _incomplete("weekly", words, "one or more days and a time of day")
    days = [day for day in ",".join(words[:-1]).split(",") if day]
    return Weekly(tuple(days), *_time("weekly", words[-1]), tz=tz)


def _monthly(words: list[str], tz: str | None) -> Schedule:
    if len(words) < 2:
        raise _incomplete("monthly", words, "a day of the month and a time of day")
    *day, time = words
    clamp = "clamp" in day
    said = " ".join(word for word in day if word != "clamp")
    return Monthly(
        int(said) if said.isascii() and said.isdecimal() else said, *_time("monthly", time), clamp=clamp, tz=tz
    )


def _time(kind: str, text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text, flags=re.ASCII)
    if match is None:
        raise BadSetting(f"{kind}: {text!r} is no time of day; write it as in {_FORMS[kind]!r}")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def _incomplete(kind: str, words: list[str], needs: str) -> BadSetting:
    return BadSetting(f"{' '.join([kind, *words])!r} needs {needs}; write it as in {_FORMS[kind]!r}")


_READERS: dict[str, Callable[[list[str], str | None], Schedule]] = {
    "at": _at,
    "every": _every,
    "daily": _daily,
    "weekly": _weekly,
    "monthly": _monthly,
}
