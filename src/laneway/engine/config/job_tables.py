"""The jobs of `laneway.toml`: `[jobs.NAME]` tables, parsed and checked, all of them or none.

```toml
[jobs.digest]
schedule = "0 9 * * 1-5"
tz = "Asia/Tokyo"
task = "summarize"
args = { doc = "daily" }
misfire = "all"
timeout = "5m"
```

A schedule is a line of words, an instant in TOML, or a table (`core.schedules.form`). All other keys are options of
`app.jobs.create`; durations are seconds, or text such as `"1h30m"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from laneway.core.jobs.record import JobSpec
from laneway.core.schedules import At
from laneway.core.schedules.text import period
from laneway.engine.config.tomlfile import tables
from laneway.errors import BadSetting, StoreTooNew, UsageError

EXAMPLE = '[jobs.digest], and below it schedule = "daily 09:00" and task = "summarize"'
INSIDE = ("retry", "breaker")
DURATIONS = (
    *("timeout", "max_staleness", "backoff", "backoff_cap"),
    *("retry.base", "retry.cap", "breaker.open_for"),
)

Make = Callable[[str, object, str, Mapping[str, Any], Mapping[str, Any]], JobSpec]
"""Checks an entry: called with name, schedule, task, arguments and options."""


def specs(found: Mapping[str, Any], file: Path, make: Make) -> list[JobSpec]:
    """Return the jobs that the file declares. Raises BadSetting, which names the wrong entry."""
    made: list[JobSpec] = []
    for name, fields in tables(found, "jobs", file, EXAMPLE).items():
        try:
            made.append(_spec(name, dict(fields), make))
        except (UsageError, StoreTooNew) as error:
            raise BadSetting(f"{file}: [jobs.{_key(name)}]: {error}") from error
        except (TypeError, ValueError, ArithmeticError) as error:  # from a value of an unexpected kind
            raise BadSetting(f"{file}: [jobs.{_key(name)}]: a value cannot be used: {error}") from error
    return made


def _spec(name: str, fields: dict[str, Any], make: Make) -> JobSpec:
    for needed, example in (("schedule", "daily 09:00"), ("task", "summarize")):
        if needed not in fields:
            raise BadSetting(f'it has no {needed}; write {needed} = "{example}"')
    schedule, task, args = fields.pop("schedule"), fields.pop("task"), fields.pop("args", {})
    if not isinstance(task, str):
        raise BadSetting(f"task is {task!r}; it must be the name of a task, in quotes")
    if not isinstance(args, dict):
        raise BadSetting(f'args is {args!r}; it must be a table: args = {{ doc = "42" }}')
    if isinstance(schedule, datetime):
        schedule = At(schedule, fields.pop("tz", None))
    return make(name, schedule, task, args, _with_seconds(fields))


def _with_seconds(fields: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """Return the fields with durations in text as seconds; everything else is checked later."""
    given = dict(fields)
    for field, value in fields.items():
        if field in INSIDE and isinstance(value, dict):
            given[field] = _with_seconds(value, f"{field}.")
        elif f"{inside}{field}" in DURATIONS and isinstance(value, str):
            given[field] = _seconds(value, f"{inside}{field}")
    return given


def _seconds(text: str, field: str) -> float:
    found = period(text)
    if found is None:
        raise BadSetting(f'{field} is {text!r}; write seconds, or units as in "90s", "5m", "1h30m", "2d"')
    return found


def _key(name: str) -> str:
    """Return the name in TOML syntax."""
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else msgspec.json.encode(name).decode()
