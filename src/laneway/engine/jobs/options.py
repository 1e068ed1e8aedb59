"""The options of a job, each checked: all but name, schedule, task and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from laneway.core.common.checks import checked_choice, checked_count, checked_name
from laneway.core.common.instants import duration
from laneway.core.jobs.record import CRON, JobSpec, Misfire
from laneway.core.records.breakers import Breaker, Per
from laneway.core.records.job_tie import Overlap
from laneway.core.records.policy import MAIN, PRIORITIES, TaskPolicy
from laneway.core.records.retry import Retry
from laneway.engine.handlers.task import Task
from laneway.engine.jobs.environment import condition_name
from laneway.errors import BadSetting, did_you_mean

DESCRIPTION_LIMIT = 500  # characters
Conditions = Mapping[str, Callable[[], Any]]
S = TypeVar("S", bound=msgspec.Struct)


def checked_options(options: Mapping[str, Any], task: Task[..., Any] | None, conditions: Conditions | None) -> Any:
    """Return the JobSpec fields for these options; one that is None has its default.

    `task` is the job's task, if it is known here. `conditions` are those known here; None accepts any name.
    """
    for option in options:
        if option not in OPTIONS:
            raise BadSetting.unknown("option of a job", option, OPTIONS)
    fields = {name: _field(name, value, task) for name, value in options.items() if name not in ("tz", "enabled_when")}
    if "enabled_when" in options:
        fields["enabled_when"] = _condition(options["enabled_when"], conditions)
    return fields


def default_fields(task: Task[..., Any] | None) -> dict[str, Any]:
    """Return the fields that a job gets from its task: the lane and a description."""
    lane = CRON if task is None or task.policy.lane == MAIN else task.policy.lane
    lines = (line.strip() for line in (getattr(task, "__doc__", None) or "").splitlines())
    return {"lane": lane, "description": next((line for line in lines if line), "")[:DESCRIPTION_LIMIT]}


def _field(name: str, value: Any, task: Task[..., Any] | None) -> Any:
    if name == "max_staleness":
        return 0 if value is None else duration(value, name)
    if value is None:
        return default_fields(task).get(name, _DEFAULTS[name])
    return _READERS[name](value, name)


def _name(value: object, what: str) -> str:
    return checked_name(value, what)


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise BadSetting(f"{what} is {value!r}; it must be True or False")
    return value


def _priority(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in PRIORITIES:
        raise BadSetting(f"{what} is {value!r}; it must be a whole number from -100 to 100")
    return value


def _count(value: object, what: str) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else checked_count(value, what)


def _description(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > DESCRIPTION_LIMIT:
        raise BadSetting(f"{what} must be text of at most {DESCRIPTION_LIMIT} characters")
    return value


def _timeout(value: Any, what: str) -> int | None:
    return TaskPolicy.of(lane=MAIN, timeout=value, retry=1, max_crashes=1).timeout


def _retry(value: Any, what: str) -> Retry:
    if value == 0 and not isinstance(value, bool):
        raise BadSetting("retry is 0; it counts attempts: 1 is the first and no other, None leaves it to the task")
    value = _made(Retry, value, what)
    return TaskPolicy.of(lane=MAIN, timeout=None, retry=value, max_crashes=1).retry


def _breaker(value: Any, what: str) -> Breaker:
    value = _made(Breaker, value, what)
    if not isinstance(value, Breaker):
        raise BadSetting(f"{what} is {value!r}; it must be a Breaker, as in Breaker(failures=5)")
    if value.per is not Per.TASK:
        raise BadSetting('a job\'s breaker counts all its runs; leave out per="user"')
    return value


def _made(kind: type[S], value: Any, what: str) -> Any:
    """Return the record for a table of a file."""
    if not isinstance(value, Mapping):
        return value
    for field in value:
        if field not in kind.__struct_fields__:
            raise BadSetting.unknown(f"setting of {what}", str(field), kind.__struct_fields__)
    made = {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}
    return kind(**made)


def _condition(value: object, conditions: Conditions | None) -> str | None:
    if value is None:
        return None
    name = value if isinstance(value, str) else condition_name(value)
    checked_name(name, "condition")
    if conditions is None:
        return name
    known = conditions.get(name)
    if known is None or not (isinstance(value, str) or known is value):
        hint = did_you_mean(name, conditions) if known is None else ""
        raise BadSetting(f"unknown condition {name!r}{hint}; register the function with @app.condition")
    return name


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "lane": _name,
    "user": _name,
    "session": _name,
    "priority": _priority,
    "owner": lambda value, _: checked_name(value, "job's owner"),
    "description": _description,
    "enabled": _flag,
    "misfire": lambda value, what: checked_choice(Misfire, value, what),
    "overlap": lambda value, what: checked_choice(Overlap, value, what),
    "delete_after_run": _flag,
    "run_on_start": _flag,
    "timeout": _timeout,
    "retry": _retry,
    "breaker": _breaker,
    "backoff": duration,
    "backoff_cap": duration,
    "alert_after": _count,
}
OPTIONS = (*_READERS, "max_staleness", "enabled_when", "tz")
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(JobSpec)}
